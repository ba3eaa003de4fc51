package org.nccl4j.api.plan;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.nccl4j.device.kernel.Algorithm;
import org.nccl4j.device.kernel.Operation;

/** Direct costs of a user's table, before those that a kind of device comes with. */
final class TunedWindowCosts implements WindowCosts {
  private final WindowCosts base;
  private final String file;
  private final int nRanks;
  private final Map<String, TreeMap<Long, Double>> curves = new HashMap<>();

  /**
   * The costs of a table.
   *
   * @param lines its lines of direct ways, of any numbers of ranks
   */
  TunedWindowCosts(WindowCosts base, String file, List<String> lines, int nRanks) {
    this.base = base;
    this.file = file;
    this.nRanks = nRanks;
    lines.stream()
        .map(line -> line.split(" "))
        .filter(words -> words[0].equals(Integer.toString(nRanks)))
        .forEach(words -> curves.put(words[1] + " " + words[2], MeasuredCosts.points(words)));
  }

  private TreeMap<Long, Double> curve(Operation operation, String way) {
    return curves.get(operation.label() + " " + way);
  }

  @Override
  public double microseconds(Operation operation, Algorithm way, long bytes) {
    double known = base.microseconds(operation, way, bytes);
    TreeMap<Long, Double> points = curve(operation, way.label());
    if (known == Double.POSITIVE_INFINITY || (points == null && base.areMeasured())) {
      return known;
    }
    return points == null
        ? ONLY_WHERE_ASKED + bytes
        : MeasuredCosts.at(points, operation.wholes(nRanks) * bytes);
  }

  @Override
  public double lines(Operation operation, long bytes) {
    double measured = microseconds(operation, Algorithm.DIRECT_LL, bytes);
    return measured == Double.POSITIVE_INFINITY ? base.lines(operation, bytes) : measured;
  }

  @Override
  public double pairwise(Operation operation, long bytes) {
    TreeMap<Long, Double> points = curve(operation, Algorithm.PAIRWISE.label());
    return points == null
        ? base.pairwise(operation, bytes)
        : MeasuredCosts.at(points, operation.wholes(nRanks) * bytes);
  }

  /** The table was measured with these. */
  @Override
  public int blocks(Operation operation, Algorithm way, long bytes) {
    return base.blocks(operation, way, bytes);
  }

  @Override
  public boolean worksWithoutWindows() {
    return base.worksWithoutWindows();
  }

  @Override
  public boolean areMeasured() {
    return base.areMeasured() || !curves.isEmpty();
  }

  @Override
  public String source() {
    return curves.isEmpty() ? base.source() : "measured, " + file + ", and else: " + base.source();
  }
}
