package org.nccl4j.api.init.probe;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.nccl4j.api.plan.cost.CostPoints;
import org.nccl4j.api.plan.cost.TunedTable;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Protocol;

/**
 * Writes measured cells as a table of {@code ./nccl tune}. Between two sizes a table's time is
 * interpolated linearly. Beyond the largest size a table continues at that size's bandwidth, which
 * would count the latency twice; so the probe adds a point on the line through the last two. An
 * algorithm with one point is left out.
 *
 * <p>Before a probe is complete, an algorithm that was not measured yet has a prediction, which may
 * be too high. So lines (LL and LL128), which a table would continue to large sizes, count only
 * once Simple over connections is measured beside them.
 */
final class ProbeTable {
  /** The name in messages and explanations. */
  static final String NAME = "probe";

  /** Ranks, collective, algorithm and protocol. */
  private static final int WAY_WORDS = 4;

  private static final long FAR_BYTES = 4L << 30;

  private ProbeTable() {}

  /** The table of measured times. */
  static TunedTable of(String model, int nRanks, Map<ProbeCell, Double> times) {
    return whole(unfinished(model, nRanks, times));
  }

  /** The times alone, to which a later probe adds; a line may have one point. */
  static TunedTable unfinished(String model, int nRanks, Map<ProbeCell, Double> times) {
    Map<String, TreeMap<Long, Double>> curves = new LinkedHashMap<>();
    times.forEach(
        (cell, time) ->
            curves
                .computeIfAbsent(cell.line(nRanks), missing -> new TreeMap<>())
                .put(cell.bytes(), time));
    List<String> lines = new ArrayList<>();
    curves.forEach((way, points) -> lines.add(way + CostPoints.write(points)));
    return new TunedTable(NAME, model, List.copyOf(lines));
  }

  /** The table of an unfinished one, as far as it goes; empty if nothing in it counts yet. */
  static Optional<TunedTable> soFar(TunedTable unfinished) {
    TunedTable all = whole(unfinished);
    Set<String> measured = new HashSet<>();
    for (String line : all.lines()) {
      String[] words = line.split(" ");
      if (isInSlots(words)) {
        measured.add(words[1]);
      }
    }
    List<String> lines = new ArrayList<>();
    for (String line : all.lines()) {
      String[] words = line.split(" ");
      if (words[3].equals(Protocol.SIMPLE.label()) || measured.contains(words[1])) {
        lines.add(line);
      }
    }
    return lines.isEmpty()
        ? Optional.empty()
        : Optional.of(new TunedTable(NAME, unfinished.device(), List.copyOf(lines)));
  }

  /** True for a line of Simple over connections. */
  private static boolean isInSlots(String[] words) {
    return words[3].equals(Protocol.SIMPLE.label())
        && (words[2].equals(Algorithm.PAIRWISE.label())
            || Algorithm.overConnections().stream().anyMatch(a -> a.label().equals(words[2])));
  }

  /** The table of a complete one. */
  static TunedTable whole(TunedTable unfinished) {
    List<String> lines = new ArrayList<>();
    for (String line : unfinished.lines()) {
      TreeMap<Long, Double> points = points(line);
      if (points.size() > 1) {
        extend(points);
        lines.add(way(line) + CostPoints.write(points));
      }
    }
    return new TunedTable(NAME, unfinished.device(), List.copyOf(lines));
  }

  /** The times of cells that an unfinished table has. */
  static Map<ProbeCell, Double> times(TunedTable unfinished, int nRanks, List<ProbeCell> cells) {
    Map<String, TreeMap<Long, Double>> curves = new HashMap<>();
    unfinished.lines().forEach(line -> curves.put(way(line), points(line)));
    Map<ProbeCell, Double> times = new LinkedHashMap<>();
    for (ProbeCell cell : cells) {
      Double time = curves.getOrDefault(cell.line(nRanks), new TreeMap<>()).get(cell.bytes());
      if (time != null) {
        times.put(cell, time);
      }
    }
    return times;
  }

  private static TreeMap<Long, Double> points(String line) {
    return CostPoints.read(line.split(" "), WAY_WORDS);
  }

  private static String way(String line) {
    return String.join(" ", Arrays.asList(line.split(" ")).subList(0, WAY_WORDS));
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
    text.add("# Microseconds of float32 sums; a point at 4 GiB is extrapolated.");
    text.add("# ranks, collective, algorithm, protocol, then bytes:microseconds");
    text.add("device " + table.device());
    text.addAll(table.lines());
    return text;
  }
}
