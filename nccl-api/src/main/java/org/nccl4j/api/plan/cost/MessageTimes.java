package org.nccl4j.api.plan.cost;

import java.util.Optional;
import org.nccl4j.device.Device;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.connect.AlignedGraph;
import org.nccl4j.topo.search.GraphKind;

/**
 * Times of messages that all ranks of several hosts exchange at once. On GPUs a rank's messages to
 * other hosts get no more than their channels carry.
 *
 * @param nRanks ranks
 * @param spread over hosts
 * @param kind of device
 * @param topology of the hosts of GPUs, where it is known
 */
record MessageTimes(
    int nRanks, RankPlacement spread, Device.Kind kind, Optional<CommTopology> topology) {
  /**
   * Figures of a kind of device.
   *
   * @param flight microseconds to another host
   * @param message microseconds of the work for one message to another host, at both ends
   * @param hop the same to a rank of the own host
   * @param step microseconds that the second step of rails waits for ranks that are late; so large
   *     that rails are taken only where several messages are saved, as measured
   * @param network gigabytes a second of a host
   * @param memory gigabytes a second of a rank within its host
   * @param copy microseconds of the work for one copy within a rank
   */
  record Figures(
      double flight,
      double message,
      double hop,
      double step,
      double network,
      double memory,
      double copy) {
    static final Figures HOST = new Figures(15, 6, 0.5, 15, 1.2, 6, 0.05);

    /** Estimated, as those of {@link GpuNetCostModel}. */
    static final Figures GPU = new Figures(35, 4, 1, GpuCostModel.LAUNCH, 2.5, 8, 0.1);

    /** The same with the topology's flight and bandwidths. */
    private Figures on(CommTopology known) {
      AlignedGraph ring = known.comm().of(GraphKind.RING);
      return new Figures(
          new NcclCosts(known).handOverBetweenNodes(Protocol.SIMPLE),
          message,
          hop,
          step,
          ring.nChannels() * (double) ring.bwInter(),
          ring.nChannels() * (double) ring.bwIntra(),
          copy);
    }
  }

  /** The figures of these ranks. */
  Figures figures() {
    return kind == Device.Kind.HOST
        ? Figures.HOST
        : topology.map(Figures.GPU::on).orElse(Figures.GPU);
  }

  /** As {@link CommunicatorProfile#messages}. */
  double of(int near, long nearBytes, int far, long farBytes) {
    Figures of = figures();
    double ofRank = (double) farBytes / spread.mostRanks();
    return (far == 0 ? 0 : of.flight + far * of.message + crossing(farBytes, ofRank, far))
        + near * of.hop
        + nearBytes / (of.memory * 1e3);
  }

  /**
   * Microseconds of what goes to other hosts.
   *
   * @param bytes of a host
   * @param ofRank bytes of one of its ranks
   * @param messages of such a rank, at least 1
   */
  double crossing(double bytes, double ofRank, int messages) {
    double network = bytes / (figures().network * 1e3);
    if (kind == Device.Kind.HOST) {
      return network;
    }
    double gigabytes = ChannelBandwidth.of(nRanks, spread).ofMessages(messages);
    return Math.max(network, ofRank / (gigabytes * 1e3));
  }
}
