package org.nccl4j.api.init.probe;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.nccl4j.api.plan.algorithm.CostPoints;
import org.nccl4j.api.plan.algorithm.TunedTable;

/**
 * Writes measured cells as a table of {@code ./nccl tune}. Between two sizes a table's time is
 * interpolated linearly. Beyond the largest size a table continues at that size's bandwidth, which
 * would count the latency twice; so the probe adds a point on the line through the last two. An
 * algorithm with one point is left out.
 */
final class ProbeTable {
  /** The name in messages and explanations. */
  static final String NAME = "probe";

  private static final long FAR_BYTES = 4L << 30;

  private ProbeTable() {}

  static TunedTable of(String model, int nRanks, Map<ProbeCell, Double> times) {
    Map<String, TreeMap<Long, Double>> curves = new LinkedHashMap<>();
    times.forEach(
        (cell, time) ->
            curves
                .computeIfAbsent(cell.line(nRanks), missing -> new TreeMap<>())
                .put(cell.bytes(), time));
    List<String> lines = new ArrayList<>();
    curves.values().removeIf(points -> points.size() < 2);
    curves.forEach(
        (way, points) -> {
          extend(points);
          lines.add(way + CostPoints.write(points));
        });
    return new TunedTable(NAME, model, List.copyOf(lines));
  }

  private static void extend(TreeMap<Long, Double> points) {
    Map.Entry<Long, Double> last = points.lastEntry();
    Map.Entry<Long, Double> before = points.lowerEntry(last.getKey());
    double slope = (last.getValue() - before.getValue()) / (last.getKey() - before.getKey());
    // A time that does not grow was disturbed: then its bandwidth is all that is known.
    double grows = slope > 0 ? slope : last.getValue() / last.getKey();
    points.put(FAR_BYTES, last.getValue() + grows * (FAR_BYTES - last.getKey()));
  }

  /** The lines of a table's file. */
  static List<String> text(TunedTable table, String key) {
    List<String> text = new ArrayList<>();
    text.add(key);
    text.add("# Microseconds of float32 sums; the last point of a line is extrapolated.");
    text.add("# ranks, collective, algorithm, protocol, then bytes:microseconds");
    text.add("device " + table.device());
    text.addAll(table.lines());
    return text;
  }
}
