package org.nccl4j.api.plan.algorithm;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.Device;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Costs of all-to-alls between hosts with as many ranks each: pairwise, where a rank sends a
 * message to each rank of another host, and by rails, where it sends one for all of them. As many
 * bytes go between hosts. By rails they are moved once more within the host that they have come to,
 * after they have come.
 *
 * @param base the costs of all else
 * @param nRanks ranks
 * @param spread over hosts
 * @param kind of device
 */
record RailCosts(CostModel base, int nRanks, RankPlacement spread, Device.Kind kind)
    implements CostOverlay {
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
   */
  private record Figures(
      double flight, double message, double hop, double step, double network, double memory) {
    static final Figures HOST = new Figures(15, 6, 0.5, 15, 1.2, 6);

    /** Estimated, as those of {@link GpuNetCostModel}. */
    static final Figures GPU = new Figures(35, 4, 1, GpuCostModel.LAUNCH, 2.5, 8);

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
    int others = spread.hosts() - 1;
    int locals = spread.mostRanks();
    double far = (double) others * locals * (bytes / nRanks);
    double all = of.flight + locals * far / (of.network * 1e3) + bytes / (of.memory * 1e3);
    return byRails
        ? all
            + others * of.message
            + of.step
            + spread.hosts() * (locals - 1) * of.hop
            + far / (of.memory * 1e3)
        : all + others * locals * of.message + (locals - 1) * of.hop;
  }

  @Override
  public String source(Operation operation, Algorithm algorithm, Protocol protocol) {
    return algorithm == Algorithm.RAILS
        ? "formula of messages and bytes"
        : base.source(operation, algorithm, protocol);
  }
}
