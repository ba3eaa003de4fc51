package org.nccl4j.api.plan.algorithm;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Costs between windows from a user's table, else those of the kind of device. */
final class TunedWindowCosts implements CostOverlay {
  private final CostModel base;
  private final String file;
  private final Map<String, TreeMap<Long, Double>> curves = new HashMap<>();

  /**
   * The costs of a table.
   *
   * @param lines its lines of algorithms between windows, of any numbers of ranks
   */
  TunedWindowCosts(CostModel base, String file, List<String> lines, int nRanks) {
    this.base = base;
    this.file = file;
    lines.stream()
        .map(line -> line.split(" "))
        .filter(words -> words[0].equals(Integer.toString(nRanks)))
        .forEach(words -> curves.put(words[1] + " " + words[2], MeasuredCosts.points(words)));
  }

  @Override
  public CostModel base() {
    return base;
  }

  @Override
  public double microseconds(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    double known = base.microseconds(operation, algorithm, protocol, bytes);
    boolean pairwise = algorithm == Algorithm.PAIRWISE;
    boolean exists =
        known < Double.POSITIVE_INFINITY && base.algorithms(operation).contains(algorithm);
    if (!pairwise && !(algorithm.isBetweenWindows() && exists)) {
      return known;
    }
    TreeMap<Long, Double> points = curves.get(operation.label() + " " + algorithm.label());
    if (points != null) {
      return MeasuredCosts.at(points, bytes);
    }
    return pairwise || base.comparesWindows() ? known : ONLY_WHERE_ASKED + bytes;
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
