package org.nccl4j.api.plan.algorithm;

import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.KernelDevice.BlockRoom;

/**
 * The numbers of blocks (CTAs) of an operation on a GPU: NCCL_MIN_CTAS, NCCL_MAX_CTAS and
 * NCCL_CTA_POLICY. The same on all ranks, since a block talks to the peers' blocks of its number.
 *
 * @param fewest at least 1
 * @param most where it is less than the fewest, it counts
 * @param ofSends most channels of a send or receive, each of which is a block
 * @param sparing whether operations of all sizes take few blocks (NCCL_CTA_POLICY=1, EFFICIENCY)
 */
public record CtaLimits(int fewest, int most, int ofSends, boolean sparing) {
  /** Limits of devices that have no blocks. */
  public static final CtaLimits NONE = new CtaLimits(1, Integer.MAX_VALUE, Integer.MAX_VALUE);

  /** From here on operations take few blocks also by default, where that was measured. */
  private static final long LARGE = 4 << 20;

  /** Most blocks of sparing operations for which the fewest were not measured. */
  private static final int SPARING_BLOCKS = 32;

  /** Limits of operations that take the blocks of the best time. */
  public CtaLimits(int fewest, int most, int ofSends) {
    this(fewest, most, ofSends, /* sparing= */ false);
  }

  /** Within the room for blocks that all ranks' devices have. */
  public CtaLimits within(BlockRoom room) {
    return new CtaLimits(
        fewest,
        Math.min(most, room.mostBlocks()),
        Math.min(ofSends, room.mostMessageBlocks() / 2),
        sparing);
  }

  /** A number of blocks within the limits; 0, which leaves it to the device, stays. */
  public int limit(int blocks) {
    return blocks == 0 ? 0 : Math.min(most, Math.max(fewest, blocks));
  }

  /**
   * A number of blocks within the limits, with as few blocks as the policy wants.
   *
   * @param best of the best time; 0 leaves it to the device
   * @param few that take hardly longer; 0 if they were not measured
   * @param bytes of the whole data
   */
  public int limit(int best, int few, long bytes) {
    int spared = spared(few, bytes);
    return limit(best == 0 || spared == 0 ? best : Math.min(best, spared));
  }

  /** Most blocks where the device chooses their number; 0 for no limit. */
  public int mostOfDevice() {
    return most >= ConnectionLayout.CHANNELS ? 0 : most;
  }

  /** Most blocks where the device chooses their number, likewise; the arguments as above. */
  public int mostOfDevice(int few, long bytes) {
    int spared = spared(few, bytes);
    return spared == 0 ? mostOfDevice() : limit(spared);
  }

  private int spared(int few, long bytes) {
    if (!sparing && bytes < LARGE) {
      return 0;
    }
    return few == 0 && sparing ? SPARING_BLOCKS : few;
  }

  /**
   * Most channels of each send and receive of an operation, at least 1; 0 for no limit.
   *
   * @param messages to and from other ranks that a rank has at a time, at most
   */
  public int channels(int messages) {
    int share = mostOfDevice() == 0 ? Integer.MAX_VALUE : Math.max(1, most / messages);
    int limit = Math.min(share, ofSends);
    return limit >= ConnectionLayout.CHANNELS ? 0 : limit;
  }
}
