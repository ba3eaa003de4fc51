package org.nccl4j.api.plan.algorithm;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.nccl4j.device.Device;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.connect.AlignedGraph;
import org.nccl4j.topo.search.GraphKind;

/**
 * Costs of all-to-alls between hosts: pairwise, where a rank sends a message to each rank of
 * another host, and by rails, where it sends one for all of them. As many bytes go between hosts.
 * By rails they are moved once more within the host that they have come to, after they have come,
 * and once before they leave where the ranks are not numbered host after host. Of hosts with
 * different numbers of ranks the busiest rank counts. On GPUs of a known topology the bandwidths
 * and the flight are its own; rails are not measured there, and taken only where they are asked
 * for.
 *
 * @param base the costs of all else
 * @param nRanks ranks
 * @param spread over hosts
 * @param packs whether parts for a host are copied together before they are sent
 * @param kind of device
 * @param topology of the hosts of GPUs, where it is known
 */
record RailCosts(
    CostModel base,
    int nRanks,
    RankPlacement spread,
    boolean packs,
    Device.Kind kind,
    Optional<CommTopology> topology)
    implements CostOverlay {
  /** The costs where there are rails. */
  static RailCosts over(
      CostModel base,
      int nRanks,
      RankPlacement spread,
      Device.Kind kind,
      Optional<CommTopology> topology) {
    return new RailCosts(base, nRanks, spread, !spread.isInOrder(), kind, topology);
  }

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
  private record Figures(
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
    Figures on(CommTopology known) {
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

  @Override
  public List<Algorithm> algorithms(Operation operation) {
    if (!Algorithm.RAILS.has(operation)) {
      return base.algorithms(operation);
    }
    List<Algorithm> algorithms = new ArrayList<>(base.algorithms(operation));
    algorithms.add(0, Algorithm.RAILS);
    return algorithms;
  }

  @Override
  public boolean has(Algorithm algorithm, Protocol protocol) {
    return algorithm == Algorithm.RAILS || base.has(algorithm, protocol);
  }

  @Override
  public double microseconds(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    boolean byRails = algorithm == Algorithm.RAILS;
    if (!Algorithm.RAILS.has(operation) || !byRails && algorithm != Algorithm.PAIRWISE) {
      return base.microseconds(operation, algorithm, protocol, bytes);
    }
    return byRails && kind == Device.Kind.CUDA
        ? ONLY_WHERE_ASKED + exchange(byRails, bytes)
        : exchange(byRails, bytes);
  }

  private static Figures figures(Device.Kind kind, Optional<CommTopology> topology) {
    return kind == Device.Kind.HOST
        ? Figures.HOST
        : topology.map(Figures.GPU::on).orElse(Figures.GPU);
  }

  /** As {@link CommunicatorProfile#messages}. */
  static double messages(
      Device.Kind kind,
      Optional<CommTopology> topology,
      int near,
      long nearBytes,
      int far,
      long farBytes) {
    Figures of = figures(kind, topology);
    return (far == 0 ? 0 : of.flight + far * of.message + farBytes / (of.network * 1e3))
        + near * of.hop
        + nearBytes / (of.memory * 1e3);
  }

  private double exchange(boolean byRails, long bytes) {
    Figures of = figures(kind, topology);
    int most = spread.mostRanks();
    int fewest = spread.fewestRanks();
    int others = spread.hosts() - 1;
    double part = (double) bytes / nRanks;
    double crossing = Math.max(most * (nRanks - most), fewest * (nRanks - fewest)) * part;
    double all = of.flight + crossing / (of.network * 1e3) + bytes / (of.memory * 1e3);
    if (!byRails) {
      return all + (nRanks - fewest) * of.message + (most - 1) * of.hop;
    }
    int arrivals = others * ((most + fewest - 1) / fewest);
    return all
        + arrivals * of.message
        + of.step
        + (arrivals + 1) * (most - 1) * of.hop
        + arrivals * fewest * part / (of.memory * 1e3)
        + (packs ? packing(part, of) : 0);
  }

  /** Microseconds until a rank has copied together what it has for other hosts. */
  private double packing(double part, Figures of) {
    return (nRanks - spread.fewestRanks()) * (of.copy + part / (of.memory * 1e3));
  }

  @Override
  public String source(Operation operation, Algorithm algorithm, Protocol protocol) {
    return Algorithm.RAILS.has(operation)
        ? "formula of messages and bytes" + (topology.isPresent() ? ", topology's network" : "")
        : base.source(operation, algorithm, protocol);
  }
}
