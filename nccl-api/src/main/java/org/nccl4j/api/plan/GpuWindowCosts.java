package org.nccl4j.api.plan;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.nccl4j.device.kernel.Algorithm;
import org.nccl4j.device.kernel.Operation;

/**
 * Direct costs on GPUs: those measured for the model and the number of ranks ({@link
 * MeasuredTable}), and a formula where nothing was measured.
 */
final class GpuWindowCosts implements WindowCosts {
  private static final double LL_LATENCY = 5;
  private static final double BARRIERS = 8;
  private static final double COPIES = 30;
  private static final double GIGABYTES = 320;
  private static final double COPY_GIGABYTES = 375;
  private static final double LL_GIGABYTES = 150;
  private static final double PAIRWISE = 8;

  /** A guess must not win over what was measured. */
  private static final double DOUBT = 1.5;

  private static final String GUESSED =
      "guessed, since none were measured for this GPU: taken only where NCCL_ALGO asks for them";

  /** Costs by model, number of ranks and bytes in lines. */
  private static final Map<String, GpuWindowCosts> KNOWN = new ConcurrentHashMap<>();

  private final int nRanks;
  private final String source;
  private final long lineData;
  private final Map<String, TreeMap<Long, Double>> curves = new HashMap<>();
  private final Map<String, TreeMap<Long, Integer>> blocks = new HashMap<>();

  /**
   * The costs of a model; read once.
   *
   * @param lineData most bytes that a rank sends another in lines
   */
  static GpuWindowCosts of(String model, int nRanks, long lineData) {
    return KNOWN.computeIfAbsent(
        nRanks + " " + lineData + " " + model,
        missing -> new GpuWindowCosts(model, nRanks, lineData));
  }

  private GpuWindowCosts(String model, int nRanks, long lineData) {
    this.nRanks = nRanks;
    this.lineData = lineData;
    Optional<MeasuredTable> table = MeasuredTable.find(model, "direct", nRanks);
    this.source = table.map(found -> found.source(nRanks)).orElse(GUESSED);
    table.ifPresent(found -> found.lines().forEach(this::read));
  }

  /** A line: ranks, operation, way, then bytes:microseconds or bytes:microseconds:blocks. */
  private void read(String[] words) {
    String way = words[1] + " " + words[2];
    TreeMap<Long, Double> times = new TreeMap<>();
    TreeMap<Long, Integer> best = new TreeMap<>();
    for (int i = 3; i < words.length; i++) {
      String[] point = words[i].split(":");
      times.put(Long.parseLong(point[0]), Double.parseDouble(point[1]));
      best.put(Long.parseLong(point[0]), point.length < 3 ? 0 : Integer.parseInt(point[2]));
    }
    curves.put(way, times);
    blocks.put(way, best);
  }

  @Override
  public double microseconds(Operation operation, Algorithm way, long bytes) {
    if (!exists(operation, way) || (way == Algorithm.DIRECT_LL && bytes > lineData)) {
      return Double.POSITIVE_INFINITY;
    }
    TreeMap<Long, Double> measured = curves.get(operation + " " + way.label());
    if (measured != null) {
      return MeasuredCosts.at(measured, bytes);
    }
    return way == Algorithm.COPY_ENGINE_BATCH || way == Algorithm.COPY_ENGINE_STREAM
        ? ONLY_WHERE_ASKED + bytes
        : (curves.isEmpty() ? 1 : DOUBT) * guess(operation, way, bytes);
  }

  /** The ways that the CUDA device has. */
  private boolean exists(Operation operation, Algorithm way) {
    return !way.isMulticast() && existsWithoutSwitch(operation, way);
  }

  private boolean existsWithoutSwitch(Operation operation, Algorithm way) {
    boolean copies =
        way == Algorithm.COPY_ENGINE
            || way == Algorithm.COPY_ENGINE_BATCH
            || way == Algorithm.COPY_ENGINE_STREAM;
    return switch (operation) {
      case ALL_REDUCE -> !copies || isBeside(way);
      case ALL_GATHER, ALL_TO_ALL -> way != Algorithm.DIRECT_TWO_SHOT;
      case REDUCE_SCATTER ->
          way == Algorithm.DIRECT_LL || way == Algorithm.DIRECT_ONE_SHOT || isBeside(way);
      case REDUCE -> way == Algorithm.DIRECT_ONE_SHOT;
      default -> copies;
    };
  }

  /** Copy engines reduce where they have a kernel beside them. */
  private boolean isBeside(Algorithm way) {
    return way == Algorithm.COPY_ENGINE && nRanks == 2;
  }

  private double guess(Operation operation, Algorithm way, long bytes) {
    double traffic = traffic(operation, way) * bytes / 1e3;
    return switch (way) {
      case DIRECT_LL -> LL_LATENCY + 2 * traffic / LL_GIGABYTES;
      case DIRECT_ONE_SHOT, DIRECT_TWO_SHOT -> BARRIERS + traffic / GIGABYTES;
      case COPY_ENGINE -> COPIES + traffic / COPY_GIGABYTES;
      default -> throw new IllegalArgumentException(way.label());
    };
  }

  /** Returns how many times the busiest rank sends or receives count elements over its links. */
  private double traffic(Operation operation, Algorithm way) {
    double others = nRanks - 1;
    return operation == Operation.ALL_REDUCE
            && (way == Algorithm.DIRECT_TWO_SHOT || way == Algorithm.COPY_ENGINE)
        ? 2 * others / nRanks
        : others;
  }

  @Override
  public double lines(Operation operation, long bytes) {
    return microseconds(operation, Algorithm.DIRECT_LL, bytes);
  }

  @Override
  public double pairwise(Operation operation, long bytes) {
    TreeMap<Long, Double> measured = curves.get(operation + " Pairwise");
    return measured == null
        ? PAIRWISE + traffic(operation, Algorithm.DIRECT_ONE_SHOT) * bytes / (GIGABYTES * 1e3)
        : MeasuredCosts.at(measured, bytes);
  }

  @Override
  public int blocks(Operation operation, Algorithm way, long bytes) {
    TreeMap<Long, Integer> best = blocks.get(operation + " " + way.label());
    if (best == null) {
      return 0;
    }
    Map.Entry<Long, Integer> nearest = best.floorEntry(bytes);
    return (nearest == null ? best.firstEntry() : nearest).getValue();
  }

  @Override
  public boolean worksWithoutWindows() {
    return true;
  }

  @Override
  public boolean areMeasured() {
    return !curves.isEmpty();
  }

  @Override
  public String source() {
    return source;
  }
}
