package org.nccl4j.api.plan.cost;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalDouble;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.cluster.CommTopology;

/**
 * A device's costs with NVLS among them. By the switch, what limits is the bytes that a GPU's links
 * carry one way: of an all-reduce, all data once for everybody's sums, and its own part of them
 * once more; docs/concepts/nvls.md has the derivation.
 *
 * @param base the costs of all else
 * @param host whether it is the host device, which emulates NVLS by passes over memory
 * @param nvls this rank's place, of which only what is the same on all ranks is looked at
 * @param spread of the ranks over machines
 * @param topology of the machines of GPUs, where it is known
 * @param tuned figures of the user's
 * @param speed of the switch, where it was measured
 */
public record NvlsCostModel(
    CostModel base,
    boolean host,
    Nvls nvls,
    RankPlacement spread,
    Optional<CommTopology> topology,
    Optional<MeasuredCosts> tuned,
    Optional<SwitchSpeed> speed)
    implements CostOverlay {
  /** A launch, and scatter, sum and gather one after the other, with a flight for each word. */
  private static final double LATENCY = 20;

  /**
   * Bandwidth of SM loads and stores over the 18 links of a Hopper GPU, in GB/s; for GPUs of which
   * no topology is known.
   */
  private static final double LINK_GIGABYTES = 367;

  /**
   * Share of that bandwidth that accesses through the switch's multicast reach, from NCCL's model.
   */
  private static final double MULTICAST_EFFICIENCY = 0.85;

  /** Share of the link bandwidth that the emulation reaches: it waits for loads from other GPUs. */
  private static final double EMULATION_EFFICIENCY = 0.8;

  private static final double HOST_LATENCY = 2;
  private static final double HOST_GIGABYTES = 20;
  private static final int LEAST_CHUNK = 8 << 10;
  private static final int CHUNKS_A_PART = 4;

  /** Emulated, multicast moves what stores do, and looks at all memories. */
  private static final double WINDOW_EMULATION = 1.02;

  /**
   * Gain of multicast stores over stores to one rank after the other, from NCCL's model of lines.
   */
  private static final double FEWER_STORES = 1.1;

  /** Two barriers and a launch between windows, on GPUs. */
  private static final double WINDOW_LATENCY = 8;

  @Override
  public List<Algorithm> algorithms(Operation operation) {
    List<Algorithm> algorithms = new ArrayList<>(base.algorithms(operation));
    boolean allReduce = operation == Operation.ALL_REDUCE;
    if (nvls.machines() > 1) {
      if (allReduce) {
        algorithms.add(Algorithm.NVLS_TREE);
      }
      return algorithms;
    }
    if (allReduce || Nvls.has(operation) && nvls.allAreHeads()) {
      algorithms.add(Algorithm.NVLS);
      algorithms.add(Algorithm.DIRECT_NVLS);
    }
    if (Algorithm.DIRECT_NVLS_LL.has(operation)) {
      algorithms.add(Algorithm.DIRECT_NVLS_LL);
    }
    return algorithms;
  }

  /** True if an algorithm goes through the slots of NVLS. */
  public static boolean isNvls(Algorithm algorithm) {
    return algorithm == Algorithm.NVLS || algorithm == Algorithm.NVLS_TREE;
  }

  @Override
  public boolean has(Algorithm algorithm, Operation operation, DataType type, RedOp op) {
    if (isNvls(algorithm)) {
      return nvls.combines(operation, type, op);
    }
    return algorithm.isMulticast()
        ? nvls.combines(operation, algorithm, type, op)
        : base.has(algorithm, operation, type, op);
  }

  @Override
  public boolean has(Algorithm algorithm, Protocol protocol) {
    return isNvls(algorithm) ? algorithm.has(protocol) : base.has(algorithm, protocol);
  }

  @Override
  public double microseconds(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    if (algorithm.isMulticast()) {
      double predicted = betweenWindows(operation, algorithm, bytes);
      return predicted < Double.POSITIVE_INFINITY
          ? measured(operation, algorithm, algorithm.protocol(), bytes).orElse(predicted)
          : predicted;
    }
    if (!isNvls(algorithm)) {
      return base.microseconds(operation, algorithm, protocol, bytes);
    }
    OptionalDouble measured = measured(operation, algorithm, protocol, bytes);
    if (measured.isPresent()) {
      return measured.getAsDouble();
    }
    boolean allReduce = operation == Operation.ALL_REDUCE;
    double n = spread.mostRanks();
    if (host) {
      double here = n * HOST_LATENCY + (allReduce ? 6 : 3) * bytes / (HOST_GIGABYTES * 1e3);
      return nvls.machines() == 1
          ? here
          : here + NetCostModel.treeMicroseconds(nvls.machines(), bytes);
    }
    double carried = (allReduce ? 2 : 1) * (n - 1) / n / EMULATION_EFFICIENCY;
    double here =
        LATENCY
            + (nvls.multicast().emulated()
                ? carried * bytes / (LINK_GIGABYTES * 1e3)
                : switchMicroseconds(allReduce, n, bytes));
    return nvls.machines() == 1 ? here : betweenMachines(here, bytes);
  }

  private OptionalDouble measured(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    return tuned
        .map(costs -> costs.measured(operation, algorithm, protocol, bytes))
        .orElse(OptionalDouble.empty());
  }

  /**
   * Between windows of a machine. By the switch, in place, an all-reduce carries over a GPU's links
   * what it does through slots, and lines go out once to all. Emulated, it is never the cheapest,
   * and so is taken only where it is asked for.
   */
  private double betweenWindows(Operation operation, Algorithm algorithm, long bytes) {
    boolean emulated = nvls.multicast().emulated();
    if (algorithm == Algorithm.DIRECT_NVLS_LL) {
      double each = base.microseconds(operation, Algorithm.DIRECT_LL, Protocol.LL, bytes);
      return emulated ? WINDOW_EMULATION * each : each / FEWER_STORES;
    }
    boolean allReduce = operation == Operation.ALL_REDUCE;
    if (!emulated) {
      return WINDOW_LATENCY + switchMicroseconds(allReduce, nvls.members().size(), bytes);
    }
    Algorithm same = allReduce ? Algorithm.DIRECT_TWO_SHOT : Algorithm.DIRECT_ONE_SHOT;
    return WINDOW_EMULATION * base.microseconds(operation, same, Protocol.SIMPLE, bytes);
  }

  /**
   * With the trees of heads between machines of GPUs. Where the topology is known, NCCL's model has
   * a figure for all of it by the switch; an emulation takes as long as that and a tree of ranks.
   *
   * @param here what a machine alone would take
   */
  private double betweenMachines(double here, long bytes) {
    OptionalDouble all = nvls.multicast().emulated() ? OptionalDouble.empty() : predicted(bytes);
    return all.orElseGet(() -> here + trees(bytes));
  }

  private double trees(long bytes) {
    double known =
        topology.isEmpty()
            ? Double.POSITIVE_INFINITY
            : base.microseconds(Operation.ALL_REDUCE, Algorithm.TREE, Protocol.SIMPLE, bytes);
    return known < Double.POSITIVE_INFINITY
        ? known
        : GpuNetCostModel.treeMicroseconds(nvls.machines(), bytes);
  }

  /**
   * Returns the time of an all-reduce in NCCL's model, whose heads send a part of the data each
   * through their channels; empty where the model has no figure.
   */
  private OptionalDouble predicted(long bytes) {
    int channels = channels();
    double most =
        new ChannelBandwidth(
                spread.mostRanks() * nvls.machines(), nvls.machines(), channels, channels)
            .ofHeads(nvls.layout().nHeads());
    return topology.map(NcclCosts::new).stream()
        .mapToDouble(
            nccl ->
                nccl.microseconds(
                    Operation.ALL_REDUCE, Algorithm.NVLS_TREE, Protocol.SIMPLE, bytes, most))
        .filter(time -> time < Double.POSITIVE_INFINITY)
        .findFirst();
  }

  /**
   * Returns the time that the links of one of n GPUs need for the data that the switch reduces and
   * broadcasts: by the links and the architecture that the topology shows, and by the measured
   * speed.
   *
   * @param bytes of all parts together
   */
  private double switchMicroseconds(boolean allReduce, double n, long bytes) {
    double predicted =
        topology
            .map(CommTopology::multicastGigabytes)
            .orElse(OptionalDouble.empty())
            .orElse(LINK_GIGABYTES * MULTICAST_EFFICIENCY);
    double reached = speed.map(measured -> measured.over(predicted)).orElse(predicted);
    return (allReduce ? 1 + 1 / n : 1) * bytes / (reached * 1e3);
  }

  /** Between machines as many as the connections have. */
  @Override
  public int channels(Operation operation, AlgorithmChoice choice, long bytes) {
    return isNvls(choice.algorithm()) ? channels() : base.channels(operation, choice, bytes);
  }

  private int channels() {
    int made = nvls.layout().nChannels();
    return nvls.machines() == 1 ? made : Math.min(made, spread.channels());
  }

  /** Small data in chunks of which each channel has some, so that its three phases overlap. */
  @Override
  public int chunkBytes(
      ConnectionLayout connections, Operation operation, AlgorithmChoice choice, long bytes) {
    if (!isNvls(choice.algorithm())) {
      return base.chunkBytes(connections, operation, choice, bytes);
    }
    NvlsLayout layout = nvls.layout();
    long part = bytes / layout.nHeads() / channels();
    long chunk = part / CHUNKS_A_PART & -LEAST_CHUNK;
    return (int) Math.min(layout.chunkBytes(), Math.max(LEAST_CHUNK, chunk));
  }

  @Override
  public String source() {
    return base.source() + how();
  }

  @Override
  public String windowSource() {
    return nvls.machines() > 1 ? base.windowSource() : base.windowSource() + how();
  }

  private String how() {
    if (nvls.multicast().emulated()) {
      return "; NVLS emulated";
    }
    return "; NVLS by the switch, "
        + speed.map(at -> "measured at %.0f GB/s".formatted(at.gigabytes())).orElse("predicted");
  }

  @Override
  public String source(Operation operation, Algorithm algorithm, Protocol protocol) {
    if (!isNvls(algorithm)) {
      return base.source(operation, algorithm, protocol);
    }
    if (tuned.isPresent() && tuned.get().measured(operation, algorithm, protocol, 1).isPresent()) {
      return tuned.get().source();
    }
    if (host) {
      return "formula, fitted on hosts";
    }
    String links = "predicted by what the links carry";
    if (nvls.machines() == 1) {
      return links;
    }
    return topology.isEmpty()
        ? links + ", flights and bytes between machines estimated"
        : nvls.multicast().emulated()
            ? links + ", and a tree of NCCL's"
            : "topology, NCCL's tables";
  }
}
