package org.nccl4j.api.plan.cost;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Costs between windows, and of sends and receives, from a user's table, else those of the kind of
 * device.
 */
final class TunedWindowCosts implements CostOverlay {
  private final CostModel base;
  private final String file;
  private final boolean probed;
  private final Map<String, TreeMap<Long, Double>> curves = new HashMap<>();

  /**
   * The costs of a table.
   *
   * @param lines its lines of algorithms between windows and of exchanges, of any ranks
   * @param ranks as {@link RankPlacement#inTables} has them
   */
  TunedWindowCosts(CostModel base, TunedTable table, List<String> lines, String ranks) {
    this.base = base;
    this.file = table.file();
    this.probed = table.probed();
    lines.stream()
        .map(line -> line.split(" "))
        .filter(words -> words[0].equals(ranks))
        .forEach(words -> curves.put(words[1] + " " + words[2], CostPoints.read(words, 4)));
  }

  @Override
  public CostModel base() {
    return base;
  }

  @Override
  public double microseconds(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    double known = base.microseconds(operation, algorithm, protocol, bytes);
    boolean exchange = isExchange(algorithm);
    boolean exists =
        known < Double.POSITIVE_INFINITY && base.algorithms(operation).contains(algorithm);
    if (!exchange && !(algorithm.isBetweenWindows() && exists)) {
      return known;
    }
    TreeMap<Long, Double> points = curve(operation, algorithm);
    if (points != null) {
      return MeasuredCosts.at(points, bytes);
    }
    if (exchange) {
      return isGuess(operation, algorithm) ? 2 * known : known;
    }
    return base.comparesWindows() ? known : ONLY_WHERE_ASKED + bytes;
  }

  private static boolean isExchange(Algorithm algorithm) {
    return algorithm == Algorithm.PAIRWISE || algorithm == Algorithm.RAILS;
  }

  /** The measured times of an algorithm, or null. */
  private TreeMap<Long, Double> curve(Operation operation, Algorithm algorithm) {
    return curves.get(operation.label() + " " + algorithm.inTables());
  }

  /** True if the other way of an exchange was measured, over which an estimate must not win. */
  private boolean isGuess(Operation operation, Algorithm algorithm) {
    Algorithm other = algorithm == Algorithm.RAILS ? Algorithm.PAIRWISE : Algorithm.RAILS;
    return Algorithm.RAILS.has(operation) && curve(operation, other) != null;
  }

  @Override
  public boolean isOfFewBlocks(Operation operation, Algorithm algorithm, Protocol protocol) {
    boolean has = isExchange(algorithm) || algorithm.isBetweenWindows();
    return has && curve(operation, algorithm) != null
        ? probed
        : base.isOfFewBlocks(operation, algorithm, protocol);
  }

  @Override
  public String source(Operation operation, Algorithm algorithm, Protocol protocol) {
    String known = base.source(operation, algorithm, protocol);
    if (!isExchange(algorithm)) {
      return known;
    }
    if (curve(operation, algorithm) != null) {
      return "measured, " + file;
    }
    return isGuess(operation, algorithm)
        ? "not measured, twice the predicted time: " + known
        : known;
  }

  @Override
  public boolean comparesWindows() {
    return base.comparesWindows() || !curves.isEmpty();
  }

  @Override
  public boolean makesSpaceAhead() {
    return base.makesSpaceAhead() || !curves.isEmpty();
  }

  @Override
  public String windowSource() {
    return curves.isEmpty()
        ? base.windowSource()
        : "measured, " + file + ", otherwise: " + base.windowSource();
  }
}
