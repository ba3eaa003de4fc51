package org.nccl4j.api.plan.algorithm;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.Device;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Costs of all-to-alls between hosts: pairwise, where a rank sends a message to each rank of
 * another host, and by rails, where it sends one for all of them. As many bytes go between hosts.
 * By rails they are moved once more within the host that they have come to, after they have come,
 * and once before they leave where the ranks are not numbered host after host. Of hosts with
 * different numbers of ranks the busiest rank counts.
 *
 * @param base the costs of all else
 * @param nRanks ranks
 * @param spread over hosts
 * @param packs whether parts for a host are copied together before they are sent
 * @param kind of device
 */
record RailCosts(CostModel base, int nRanks, RankPlacement spread, boolean packs, Device.Kind kind)
    implements CostOverlay {
  /** The costs where there are rails. */
  static RailCosts over(CostModel base, int nRanks, RankPlacement spread, Device.Kind kind) {
    return new RailCosts(base, nRanks, spread, !spread.isInOrder(), kind);
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

    static Figures of(Device.Kind kind) {
      return kind == Device.Kind.HOST ? HOST : GPU;
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
    if (byRails && kind == Device.Kind.CUDA) {
      return ONLY_WHERE_ASKED + bytes; // not measured
    }
    Figures of = Figures.of(kind);
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
    return algorithm == Algorithm.RAILS
        ? "formula of messages and bytes"
        : base.source(operation, algorithm, protocol);
  }
}
