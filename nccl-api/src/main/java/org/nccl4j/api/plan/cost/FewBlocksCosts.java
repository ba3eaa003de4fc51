package org.nccl4j.api.plan.cost;

import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Costs of operations with few blocks, derived from those of operations with their best number of
 * blocks. Where few blocks fill the links, and where times were measured with as few, they stay as
 * they are. Fitted on 2 H100: docs/benchmarks/blocks.md.
 *
 * @param base costs without a limit
 * @param blocks most blocks between windows and of lines
 * @param channels most channels over connections in Simple
 */
public record FewBlocksCosts(CostModel base, int nRanks, int blocks, int channels)
    implements CostOverlay {
  /** So many blocks and channels are no limit. */
  public static final int MANY = 32;

  private static final double LINES_MICROS = 3;

  /** Sent by a block in lines of the library's own window, and in those of connections. */
  private static final double DIRECT_LINES_GIGABYTES = 4;

  private static final double LINES_GIGABYTES = 3;

  /** Channels in Simple that fill links as fast as H200's; fewer fill slower ones. */
  private static final double FULL_CHANNELS = 28;

  /** GB/s of links from which on so many channels are needed. */
  private static final double FULL_GIGABYTES = 300;

  private static final long LEAST_LARGE = 4 << 20;

  /** Engines that give sums to the other rank, compared with blocks that store them. */
  private static final double GIVING = 1.06;

  private static final double GIVING_MICROS = 10;

  /** Two-shot and one-shot. */
  private static final double DIRECT_ALL_REDUCE = 1.1;

  private static final double DIRECT = 1.04;

  @Override
  public double microseconds(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    double least = base.microseconds(operation, algorithm, protocol, bytes);
    if (base.isOfFewBlocks(operation, algorithm, protocol)
        || algorithm.isMulticast()
        || algorithm.isNvls()
        || !operation.isCollective() && !algorithm.isBetweenWindows()) {
      return least;
    }
    return algorithm.isBetweenWindows()
        ? direct(operation, algorithm, bytes, least)
        : overConnections(operation, algorithm, protocol, bytes, least);
  }

  @Override
  public double messages(int ranks, int others, Protocol protocol, long bytes) {
    double least = base.messages(ranks, others, protocol, bytes);
    if (base.isOfFewBlocks(Operation.ALL_GATHER, Algorithm.RING, protocol)) {
      return least;
    }
    return protocol == Protocol.SIMPLE
        ? inSimple(bytes * ranks, least)
        : Math.max(least, lines((double) others * bytes, LINES_GIGABYTES));
  }

  private double direct(Operation operation, Algorithm algorithm, long bytes, double least) {
    if (algorithm.isLines()) {
      long sent = bytes / operation.wholes(nRanks) * (nRanks - 1);
      double rate = algorithm == Algorithm.DIRECT_LL128 ? 2 : 1; // flags are half of LL's lines
      return Math.max(least, lines(sent, rate * DIRECT_LINES_GIGABYTES));
    }
    if (blocks >= MANY || bytes < LEAST_LARGE) {
      return least;
    }
    boolean sums = operation == Operation.ALL_REDUCE;
    if (algorithm.needsCopyEngines()) {
      return sums ? GIVING * least + GIVING_MICROS : least;
    }
    return (sums ? DIRECT_ALL_REDUCE : DIRECT) * least;
  }

  private double overConnections(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes, double least) {
    if (protocol != Protocol.SIMPLE) {
      double sent = algorithm.sent(operation, nRanks) * bytes;
      return Math.max(least, lines(sent, LINES_GIGABYTES));
    }
    return inSimple(bytes, least);
  }

  private double inSimple(long bytes, double least) {
    return bytes < LEAST_LARGE ? least : Math.max(1, fullChannels() / channels) * least;
  }

  private double fullChannels() {
    double links = base.linkGigabytes();
    return links == 0 ? FULL_CHANNELS : FULL_CHANNELS * Math.min(1, links / FULL_GIGABYTES);
  }

  /** The least time in which a rank sends so many bytes in lines. */
  private double lines(double sent, double gigabytes) {
    return LINES_MICROS + sent / (gigabytes * 1e3 * blocks);
  }
}
