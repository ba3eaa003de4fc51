package org.nccl4j.api.plan.cost;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.cluster.CommTopology;

/**
 * Costs between windows on GPUs: those measured for the model and the number of ranks ({@link
 * MeasuredTable}). Without measurements they are modelled over NVLink, and estimated otherwise.
 */
final class GpuWindowCosts {
  private static final double LINES_MICROS = 5;
  private static final double BARRIERS_MICROS = 8;
  private static final double COPY_ENGINE_MICROS = 30;
  private static final double GIGABYTES = 320;
  private static final double COPY_GIGABYTES = 375;
  private static final double LL_GIGABYTES = 150;
  private static final double LL128_GIGABYTES = 250;
  private static final double PAIRWISE_MICROS = 8;
  private static final double ROUNDING = 1e-9;

  /** An estimate must not win over what was measured. */
  private static final double ESTIMATE_MARGIN = 1.5;

  private static final String ESTIMATED =
      "estimates, since none were measured for this GPU and NVLink does not connect all GPUs:"
          + " used only if NCCL_ALGO names these algorithms";

  /** Costs by number of ranks and model. */
  private static final Map<String, GpuWindowCosts> KNOWN = new ConcurrentHashMap<>();

  private final int nRanks;
  private final String source;
  private final Map<String, TreeMap<Long, Double>> micros = new HashMap<>();
  private final Map<String, TreeMap<Long, Integer>> bestBlocks = new HashMap<>();
  private final Map<String, TreeMap<Long, Integer>> fewestBlocks = new HashMap<>();

  /** The costs of a model; read once. */
  static GpuWindowCosts of(String model, int nRanks) {
    return KNOWN.computeIfAbsent(
        nRanks + " " + model, missing -> new GpuWindowCosts(model, nRanks));
  }

  private GpuWindowCosts(String model, int nRanks) {
    this.nRanks = nRanks;
    Optional<MeasuredTable> table = MeasuredTable.find(model, "direct", nRanks);
    this.source = table.map(found -> found.source(nRanks)).orElse(ESTIMATED);
    table.ifPresent(found -> found.lines().forEach(this::read));
  }

  /**
   * A line: ranks, operation, way, then bytes:microseconds, where they were tried the number of
   * blocks that took that time, and where fewer took hardly longer their number.
   */
  private void read(String[] words) {
    String way = words[1] + " " + words[2];
    micros.put(way, CostPoints.read(words, 3));
    bestBlocks.put(way, CostPoints.read(words, 3, 2));
    fewestBlocks.put(way, CostPoints.read(words, 3, 3));
  }

  /** True if some were measured. */
  boolean areMeasured() {
    return !micros.isEmpty();
  }

  /**
   * These costs between windows, and a model's over connections.
   *
   * @param nvlink whether every GPU reaches every other over NVLink
   * @param topology of the GPUs, where it is known
   */
  CostModel over(CostModel base, boolean nvlink, Optional<CommTopology> topology) {
    return nvlink && !areMeasured()
        ? new UnmeasuredWindowCosts(
            base, nRanks, topology.map(CommTopology::nvlinkGigabytes).orElse(0.0))
        : new Overlay(base);
  }

  /** A model's algorithms, and those between windows that the CUDA device has without multicast. */
  static List<Algorithm> algorithms(CostModel base, Operation operation, int nRanks) {
    List<Algorithm> algorithms = new ArrayList<>(base.algorithms(operation));
    for (Algorithm algorithm : Algorithm.betweenWindows()) {
      if (exists(operation, algorithm, nRanks)) {
        algorithms.add(algorithm);
      }
    }
    return algorithms;
  }

  private static boolean exists(Operation operation, Algorithm algorithm, int nRanks) {
    boolean has = algorithm.has(operation) && !algorithm.isMulticast();
    return switch (algorithm) {
      case DIRECT_ONE_SHOT -> has && (operation == Operation.REDUCE || !operation.isRooted());
      // Copy engines reduce where they have a kernel beside them.
      case COPY_ENGINE -> has && (nRanks == 2 || !operation.reduces());
      default -> has;
    };
  }

  /**
   * Predicted microseconds.
   *
   * @param bytes of count elements
   */
  private double microseconds(Operation operation, Algorithm algorithm, long bytes) {
    if (algorithm.isLines() && bytes > CudaDevice.lineData(nRanks, algorithm)) {
      return Double.POSITIVE_INFINITY;
    }
    TreeMap<Long, Double> measured = find(micros, operation, algorithm);
    if (measured != null) {
      return MeasuredCosts.at(measured, bytes);
    }
    return switch (algorithm) {
      case COPY_ENGINE_BATCH, COPY_ENGINE_STREAM -> CostModel.ONLY_WHERE_ASKED + bytes;
      case PAIRWISE -> estimate(operation, algorithm, bytes);
      default -> (micros.isEmpty() ? 1 : ESTIMATE_MARGIN) * estimate(operation, algorithm, bytes);
    };
  }

  /**
   * Finds the measurements of an operation. Between two ranks an operation with a root takes as
   * long in lines as the one in which both ranks do what the busier does here.
   */
  private <V> TreeMap<Long, V> find(
      Map<String, TreeMap<Long, V>> measured, Operation operation, Algorithm algorithm) {
    TreeMap<Long, V> found = measured.get(operation + " " + algorithm.label());
    if (found != null || nRanks != 2 || !algorithm.isLines() || !operation.isRooted()) {
      return found;
    }
    Operation like =
        switch (operation) {
          case BROADCAST, GATHER -> Operation.ALL_GATHER;
          case REDUCE -> Operation.ALL_REDUCE;
          default -> Operation.ALL_TO_ALL;
        };
    return measured.get(like + " " + algorithm.label());
  }

  private double estimate(Operation operation, Algorithm algorithm, long bytes) {
    double traffic = traffic(operation, algorithm) * bytes / 1e3;
    return switch (algorithm) {
      case DIRECT_LL -> LINES_MICROS + 2 * traffic / LL_GIGABYTES;
      case DIRECT_LL128 -> LINES_MICROS + traffic / LL128_GIGABYTES;
      case DIRECT_ONE_SHOT, DIRECT_TWO_SHOT -> BARRIERS_MICROS + traffic / GIGABYTES;
      case COPY_ENGINE -> COPY_ENGINE_MICROS + traffic / COPY_GIGABYTES;
      case PAIRWISE -> PAIRWISE_MICROS + traffic(operation, algorithm) * bytes / (GIGABYTES * 1e3);
      default -> throw new IllegalArgumentException(algorithm.label());
    };
  }

  /** Returns how many times the busiest rank sends or receives count elements over its links. */
  private double traffic(Operation operation, Algorithm algorithm) {
    double others = nRanks - 1;
    return operation == Operation.ALL_REDUCE
            && (algorithm == Algorithm.DIRECT_TWO_SHOT || algorithm == Algorithm.COPY_ENGINE)
        ? 2 * others / nRanks
        : others;
  }

  /**
   * Blocks of an operation by those measured around its size; 0 leaves it to the device.
   *
   * @param bytes of count elements
   */
  int blocks(Operation operation, Algorithm algorithm, long bytes) {
    TreeMap<Long, Integer> best = find(bestBlocks, operation, algorithm);
    if (best == null) {
      return 0;
    }
    Map.Entry<Long, Integer> below = best.floorEntry(bytes);
    Map.Entry<Long, Integer> above = best.ceilingEntry(bytes);
    if (below == null || above == null) {
      return (below == null ? above : below).getValue();
    }
    return between(below, above, bytes);
  }

  /** The fewest blocks that are as good, as measured for the next smaller size; 0 for none. */
  int fewestBlocks(Operation operation, Algorithm algorithm, long bytes) {
    TreeMap<Long, Integer> few = find(fewestBlocks, operation, algorithm);
    if (few == null) {
      return 0;
    }
    Map.Entry<Long, Integer> below = few.floorEntry(bytes);
    return (below == null ? few.firstEntry() : below).getValue();
  }

  /** Returns a power of two on the line through both, in logarithms, or the greater number. */
  private static int between(
      Map.Entry<Long, Integer> below, Map.Entry<Long, Integer> above, long bytes) {
    if (below.getValue().equals(above.getValue()) || below.getKey() == bytes) {
      return below.getValue();
    }
    double part =
        log2((double) bytes / below.getKey()) / log2((double) above.getKey() / below.getKey());
    double power = (1 - part) * log2(below.getValue()) + part * log2(above.getValue());
    int rounded = 1 << (int) Math.ceil(power - ROUNDING);
    return Math.min(rounded, Math.max(below.getValue(), above.getValue()));
  }

  private static double log2(double x) {
    return Math.log(x) / Math.log(2);
  }

  private final class Overlay implements CostOverlay {
    private final CostModel base;

    Overlay(CostModel base) {
      this.base = base;
    }

    @Override
    public CostModel base() {
      return base;
    }

    @Override
    public List<Algorithm> algorithms(Operation operation) {
      return GpuWindowCosts.algorithms(base, operation, nRanks);
    }

    @Override
    public double microseconds(
        Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
      if (algorithm == Algorithm.DIRECT_LL128 && base.lineSendBytes(operation) < 0) {
        return Double.POSITIVE_INFINITY; // links may divide lines
      }
      return algorithm.isBetweenWindows() || algorithm == Algorithm.PAIRWISE
          ? GpuWindowCosts.this.microseconds(operation, algorithm, part(operation, bytes))
          : base.microseconds(operation, algorithm, protocol, bytes);
    }

    @Override
    public int channels(Operation operation, AlgorithmChoice choice, long bytes) {
      return choice.algorithm().isBetweenWindows()
          ? blocks(operation, choice.algorithm(), part(operation, bytes))
          : base.channels(operation, choice, bytes);
    }

    @Override
    public int fewestChannels(Operation operation, AlgorithmChoice choice, long bytes) {
      return choice.algorithm().isBetweenWindows()
          ? fewestBlocks(operation, choice.algorithm(), part(operation, bytes))
          : base.fewestChannels(operation, choice, bytes);
    }

    private long part(Operation operation, long bytes) {
      return bytes / operation.wholes(nRanks);
    }

    @Override
    public boolean comparesWindows() {
      return areMeasured();
    }

    @Override
    public boolean makesSpaceAhead() {
      return areMeasured();
    }

    @Override
    public String windowSource() {
      return source;
    }
  }
}
