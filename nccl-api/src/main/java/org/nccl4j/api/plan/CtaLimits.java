package org.nccl4j.api.plan;

import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.KernelDevice.BlockRoom;

/**
 * The numbers of blocks (CTAs) of an operation on a GPU: NCCL_MIN_CTAS and NCCL_MAX_CTAS. The same
 * on all ranks, since a block talks to the peers' blocks of its number.
 *
 * @param fewest at least 1
 * @param most where it is less than the fewest, it counts
 * @param ofSends most channels of a send or receive, each of which is a block
 */
public record CtaLimits(int fewest, int most, int ofSends) {
  /** Limits of devices that have no blocks. */
  public static final CtaLimits NONE = new CtaLimits(1, Integer.MAX_VALUE, Integer.MAX_VALUE);

  /** Within the room for blocks that all ranks' devices have. */
  public CtaLimits within(BlockRoom room) {
    return new CtaLimits(
        fewest, Math.min(most, room.mostBlocks()), Math.min(ofSends, room.mostMessageBlocks() / 2));
  }

  /** A number of blocks within the limits; 0, which leaves it to the device, stays. */
  int limit(int blocks) {
    return blocks == 0 ? 0 : Math.min(most, Math.max(fewest, blocks));
  }

  /** Most blocks where the device chooses their number; 0 for no limit. */
  int mostOfDevice() {
    return most >= ConnectionLayout.CHANNELS ? 0 : most;
  }

  /**
   * Most channels of each send and receive of an operation, at least 1; 0 for no limit.
   *
   * @param messages to and from other ranks that a rank has at a time, at most
   */
  int channels(int messages) {
    int share = mostOfDevice() == 0 ? Integer.MAX_VALUE : Math.max(1, most / messages);
    int limit = Math.min(share, ofSends);
    return limit >= ConnectionLayout.CHANNELS ? 0 : limit;
  }
}
