package org.nccl4j.api.plan.cost;

import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.connect.AlignedGraph;
import org.nccl4j.topo.connect.CommGraph;
import org.nccl4j.topo.search.GraphKind;

/**
 * Bandwidth of the channels that proxies carry between GPUs of several hosts. A rank moves all that
 * it gives out through the channels of its connections, which have few blocks: so they limit an
 * operation as the cards do. Every model of costs between hosts of GPUs counts them by this class.
 *
 * @param nRanks ranks
 * @param ends hosts, or what stands for them: ranks that reach each other over the network alone
 * @param channels of the connections that rings, trees and the like use
 * @param pairChannels of any connection
 */
public record ChannelBandwidth(int nRanks, int ends, int channels, int pairChannels) {
  /** GB/s of one channel with our slots, a sixth of NCCL's: docs/benchmarks/h200-kernels.md. */
  static final double OF_ONE = 5.2;

  /** GB/s of the cards for which a channel is made: a little less than it carries. */
  private static final double CARDS_OF_ONE = 5;

  /** Channels of rings by all cards; more are of use only where the cards are faster. */
  private static final int ENOUGH = 16;

  /** The bandwidth of ranks that are spread over several hosts. */
  static ChannelBandwidth of(int nRanks, RankPlacement spread) {
    return new ChannelBandwidth(
        nRanks,
        spread.hosts() == 1 ? nRanks : spread.hosts(),
        spread.channels(),
        spread.pairChannels());
  }

  /**
   * Returns the channels that use all of the machines' NICs; 0 on one machine. Rings enter and
   * leave machines by different cards, so all that were found are needed, but only as many as the
   * cards have bandwidth for beyond {@link #ENOUGH}, or as the user asks for: a search has up to 32
   * rings of slow cards too, and each is there twice.
   */
  public static int channels(CommTopology topology) {
    CommGraph comm = topology.comm();
    if (comm.shape().nNodes() == 1) {
      return 0;
    }
    AlignedGraph ring = comm.of(GraphKind.RING);
    double gigabytes = ring.nChannels() * (double) ring.bwInter();
    return channels(comm.nChannels(), gigabytes, topology.askedChannels());
  }

  /**
   * Returns the channels of so many rings.
   *
   * @param gigabytes of the cards that the rings use, a second
   * @param asked the fewest that the user wants
   */
  static int channels(int rings, double gigabytes, int asked) {
    int full = (int) Math.ceil(gigabytes / CARDS_OF_ONE);
    return Math.max(Math.min(rings, Math.max(ENOUGH, asked)), full);
  }

  /** GB/s that a rank gives out in an algorithm. */
  double gigabytes(Algorithm algorithm) {
    return (algorithm.isStraight() ? pairChannels : channels) * OF_ONE;
  }

  /**
   * The most GB/s of the whole data.
   *
   * @param operation with one of the algorithms over connections
   */
  public double most(Operation operation, Algorithm algorithm) {
    return gigabytes(algorithm) / moved(operation, algorithm);
  }

  /**
   * The same of NVLSTree, whose heads send a part of the data each between hosts.
   *
   * @param heads of a host
   */
  public double ofHeads(int heads) {
    return gigabytes(Algorithm.NVLS_TREE)
        * heads
        / NetCostModel.treeSent(Operation.ALL_REDUCE, ends);
  }

  /**
   * GB/s that a rank gives out in messages to other hosts, all at once.
   *
   * @param messages at least 1
   */
  public double ofMessages(int messages) {
    return Math.min(ConnectionLayout.CHANNELS, (long) messages * pairChannels) * OF_ONE;
  }

  /** Returns how many times the busiest rank sends the whole data. */
  double moved(Operation operation, Algorithm algorithm) {
    return switch (algorithm) {
      case TREE -> NetCostModel.sentInTrees(operation, nRanks / ends, ends);
      case ONE_SHOT -> NetCostModel.oneShotSent(operation, nRanks, 1);
      default -> Algorithm.RING.sent(operation, nRanks);
    };
  }
}
