package org.nccl4j.api.plan.algorithm;

import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.api.plan.cost.CostModel;
import org.nccl4j.api.plan.cost.FewBlocksCosts;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.KernelDevice.BlockRoom;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/**
 * The numbers of blocks (CTAs) of an operation on a GPU: NCCL_MIN_CTAS, NCCL_MAX_CTAS and
 * NCCL_CTA_POLICY. The same on all ranks, since a block exchanges data with the peers' blocks of
 * the same number.
 *
 * @param fewest at least 1
 * @param most has precedence over fewest
 * @param ofSends most channels of a send or receive, each of which is a block
 * @param sparing whether operations of all sizes take few blocks (NCCL_CTA_POLICY=1, EFFICIENCY)
 */
public record CtaLimits(int fewest, int most, int ofSends, boolean sparing) {
  /** Limits of devices that have no blocks. */
  public static final CtaLimits NONE = new CtaLimits(1, Integer.MAX_VALUE, Integer.MAX_VALUE);

  /** From here on operations take few blocks also by default, where that was measured. */
  private static final long LARGE = 4 << 20;

  /**
   * Most blocks of sparing operations between windows, of which each fills a tenth of the links,
   * and of lines.
   */
  private static final int SPARING_BLOCKS = 12;

  /**
   * Most channels of sparing operations in Simple, through slots, and of sends and receives; and
   * blocks of sparing kernels in a rank's own memory.
   */
  private static final int SPARING_CHANNELS = 24;

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

  /** A model's costs within these limits. */
  public CostModel costs(CostModel model, int nRanks) {
    int blocks = most(SPARING_BLOCKS);
    int channels = most(SPARING_CHANNELS);
    return Math.min(blocks, channels) >= FewBlocksCosts.MANY
        ? model
        : new FewBlocksCosts(model, nRanks, Math.max(fewest, blocks), Math.max(fewest, channels));
  }

  /** Most blocks of an operation, given the most that the sparing policy allows it. */
  private int most(int ofSparing) {
    return sparing ? Math.min(most, ofSparing) : most;
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
   * @param slots whether the operation goes through slots: over connections in Simple
   * @param bytes of the whole data
   */
  public int limit(int best, int few, boolean slots, long bytes) {
    int spared = spared(few, slots, bytes);
    return limit(best == 0 || spared == 0 ? best : Math.min(best, spared));
  }

  /**
   * The channels of a collective over connections.
   *
   * @param costs within these limits
   * @param most channels that every connection has
   * @param bytes of the whole data
   */
  public int channels(
      CostModel costs, int most, Operation operation, AlgorithmChoice choice, long bytes) {
    int wanted = costs.channels(operation, choice, bytes);
    int few = costs.fewestChannels(operation, choice, bytes);
    // NVLS has the channels that its buffers were made for.
    return choice.algorithm() == Algorithm.NVLS
        ? wanted
        : Math.min(most, limit(wanted, few, choice.hasSlots(), bytes));
  }

  /** The number of blocks and its reason, as a line to read; the arguments as above. */
  public String explain(int best, int few, boolean slots, long bytes) {
    int blocks = limit(best, few, slots, bytes);
    int spared = spared(few, slots, bytes);
    boolean fewer = spared != 0 && (best == 0 || spared < best);
    String number = blocks == 0 ? "chosen by the device" : Integer.toString(blocks);
    int most = mostOfDevice(few, slots, bytes);
    if (blocks == 0 && most != 0) {
      number += ", at most " + most;
    }
    String reason =
        fewer
            ? sparing ? "few, by NCCL_CTA_POLICY" : "the fewest within 3 % of the least time"
            : "for the least time";
    boolean limited = blocks == 0 ? !fewer && most != 0 : blocks != (fewer ? spared : best);
    return "  blocks: %s (%s%s)%n"
        .formatted(number, reason, limited ? ", within NCCL_MIN_CTAS and NCCL_MAX_CTAS" : "");
  }

  /**
   * The number of blocks and its reason, likewise.
   *
   * @param full blocks that fill the path between two GPUs; 0 if all of them do not
   */
  public String explain(int best, int few, boolean slots, long bytes, int full) {
    int others = limit(best, few, slots, bytes);
    int most = others == 0 ? mostOfDevice(few, slots, bytes) : others;
    int allowed = limit(full);
    if (full == 0 || most != 0 && most <= allowed) {
      return explain(best, few, slots, bytes);
    }
    return "  blocks: at most %d, %s%n"
        .formatted(
            allowed,
            allowed == full
                ? "which fill the path between two GPUs"
                : "within NCCL_MIN_CTAS and NCCL_MAX_CTAS");
  }

  /** Most blocks of a kernel that waits for no other rank; 0 for no limit. */
  public int mostOfLocal() {
    return sparing ? limit(SPARING_CHANNELS) : mostOfDevice();
  }

  /** Most blocks where the device chooses their number; 0 for no limit. */
  public int mostOfDevice() {
    return most >= ConnectionLayout.CHANNELS ? 0 : most;
  }

  /** Most blocks where the device chooses their number, likewise; the arguments as above. */
  public int mostOfDevice(int few, boolean slots, long bytes) {
    int spared = spared(few, slots, bytes);
    return spared == 0 ? mostOfDevice() : limit(spared);
  }

  private int spared(int few, boolean slots, long bytes) {
    if (!sparing) {
      return bytes < LARGE ? 0 : few;
    }
    int most = slots ? SPARING_CHANNELS : SPARING_BLOCKS;
    return few == 0 ? most : Math.min(few, most);
  }

  /**
   * Most channels of each send and receive of an operation, at least 1; 0 for no limit.
   *
   * @param messages that a rank has at a time, at most: to and from other ranks, and its own copy
   */
  public int channels(int messages) {
    int all = most(SPARING_CHANNELS);
    int share = all >= ConnectionLayout.CHANNELS ? Integer.MAX_VALUE : Math.max(1, all / messages);
    int limit = Math.min(share, ofSends);
    return limit >= ConnectionLayout.CHANNELS ? 0 : limit;
  }
}
