package org.nccl4j.it.perf;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Predicate;
import org.nccl4j.api.plan.cost.CostPoints;
import org.nccl4j.api.plan.trial.TrialTimes;
import org.nccl4j.api.plan.trial.TrialTimes.Sample;
import org.nccl4j.api.plan.trial.TrialTimes.Way;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/**
 * A table of costs from the trials of a job's ranks.
 *
 * <p>The time of a measured call is that of the rank that waited least for the others, and the time
 * of a way at a size is the median of its calls. Where a way was not measured, its predicted times
 * count, multiplied by the error of the prediction at the sizes at which it was. A way that was
 * never measured has the error of the chosen ways, at least 1: an estimate must not win over a
 * measurement because the model is too fast for this machine.
 *
 * @param lines of the file
 * @param report what was measured, as lines to read
 * @param notes on communicators that tried nothing
 * @param share of the calls' time that the trials have added
 */
record LearnedTable(List<String> lines, List<String> report, List<String> notes, double share) {
  /** Calls of a way at a size of which the median counts. */
  private static final int FEWEST = 3;

  private static final double LEAST_MICROSECONDS = 0.01;

  /** A call of all ranks. */
  private record Call(long communicator, int shape, long call) {}

  /** A way at a size. */
  private record Point(Way way, long bytes) {}

  /** The calls of one way at a size, with times of the rank that waited least. */
  private static final class Measured {
    private final List<Double> times = new ArrayList<>();
    private double predicted;
    private boolean chosen;

    double median() {
      return Sweep.median(times);
    }

    double error() {
      return median() / Math.max(LEAST_MICROSECONDS, predicted);
    }
  }

  /**
   * Learns from files.
   *
   * @throws InvalidArgumentException if they are of different devices, or have too few trials
   */
  static LearnedTable of(List<TrialTimes> files) {
    String device = files.get(0).device();
    List<String> lines = new ArrayList<>();
    lines.add("# Microseconds learned by nccl4j's trials from calls of a job.");
    lines.add("# ranks, collective, algorithm, protocol, then bytes:microseconds");
    lines.add("device " + device);
    List<String> report = new ArrayList<>();
    for (TrialTimes file : files) {
      if (!file.device().equals(device)) {
        throw new InvalidArgumentException(
            ErrorId.FILE,
            "the trials are of ranks with different devices, %s and %s"
                .formatted(device, file.device()),
            "keep those of each kind of machine in a folder of its own");
      }
    }
    int most = 0;
    List<Map<Call, Sample>> merged = new ArrayList<>();
    for (String ranks : new TreeSet<>(files.stream().map(TrialTimes::ranks).toList())) {
      List<TrialTimes> these = files.stream().filter(file -> file.ranks().equals(ranks)).toList();
      Map<Call, Sample> calls = leastWaits(these);
      merged.add(calls);
      Map<Point, Measured> measured = measured(calls.values());
      most =
          Math.max(most, measured.values().stream().mapToInt(m -> m.times.size()).max().orElse(0));
      measured.values().removeIf(each -> each.times.size() < FEWEST);
      report.addAll(report(ranks, measured));
      lines.addAll(lines(ranks, predictions(these), measured));
    }
    List<String> notes = notes(files);
    if (report.isEmpty()) {
      throw new InvalidArgumentException(
          ErrorId.FILE,
          "no algorithm has been measured %d times at one size, but %d times at most"
              .formatted(FEWEST, most),
          notes.isEmpty()
              ? "let the job run longer"
              : notes.get(0) + "; if others have tried some, let the job run longer");
    }
    return new LearnedTable(lines, report, notes, share(merged));
  }

  /** A line for each communicator whose ranks do not share a folder, and so tried nothing. */
  private static List<String> notes(List<TrialTimes> files) {
    Set<Long> tried = new HashSet<>();
    for (TrialTimes file : files) {
      if (file.samples().stream().anyMatch(sample -> !sample.chosen())) {
        tried.add(file.communicator());
      }
    }
    Set<Long> noted = new HashSet<>();
    return files.stream()
        .filter(file -> !file.missing().isEmpty() && !tried.contains(file.communicator()))
        .filter(file -> noted.add(file.communicator()))
        .map(
            file ->
                ("a communicator of %s ranks tried nothing, since its ranks %s had not joined in the"
                        + " folder of others on their machine: they had another folder of this name, or"
                        + " could not write there (their log says so); name a folder in NCCL4J_TRIALS"
                        + " that all ranks of a machine share and may write, such as one of the machine"
                        + " that is mounted in its containers")
                    .formatted(file.ranks(), file.missing()))
        .toList();
  }

  /** Each call with the least of the ranks' times. */
  private static Map<Call, Sample> leastWaits(List<TrialTimes> files) {
    Map<Call, Sample> calls = new LinkedHashMap<>();
    for (TrialTimes file : files) {
      for (Sample sample : file.samples()) {
        calls.merge(
            new Call(file.communicator(), sample.shape(), sample.call()),
            sample,
            (a, b) -> a.measured() <= b.measured() ? a : b);
      }
    }
    return calls;
  }

  private static Map<Point, Measured> measured(Collection<Sample> calls) {
    Map<Point, Measured> measured = new LinkedHashMap<>();
    for (Sample call : calls) {
      Measured at =
          measured.computeIfAbsent(new Point(call.way(), call.bytes()), missing -> new Measured());
      at.times.add(call.measured());
      at.predicted = call.predicted();
      at.chosen |= call.chosen();
    }
    return measured;
  }

  private static Map<Way, TreeMap<Long, Double>> predictions(List<TrialTimes> files) {
    Map<Way, TreeMap<Long, Double>> all = new LinkedHashMap<>();
    files.forEach(file -> file.predictions().forEach(all::putIfAbsent));
    return all;
  }

  private static List<String> lines(
      String ranks, Map<Way, TreeMap<Long, Double>> predictions, Map<Point, Measured> measured) {
    List<String> lines = new ArrayList<>();
    predictions.forEach(
        (way, predicted) -> {
          TreeMap<Long, Double> points = points(way, predicted, measured);
          if (!points.isEmpty()) {
            lines.add(ranks + " " + way + CostPoints.write(points));
          }
        });
    return lines;
  }

  /**
   * The times of an algorithm: those measured, and at other sizes those predicted, times the error
   * of the prediction at the nearest measured sizes. Of an algorithm that was never measured the
   * error of the chosen ones counts, if they took longer than predicted. Empty if none of the
   * operation was measured: its predictions need no table.
   */
  private static TreeMap<Long, Double> points(
      Way way, TreeMap<Long, Double> predicted, Map<Point, Measured> measured) {
    TreeMap<Long, Double> times = new TreeMap<>();
    TreeMap<Long, Double> errors = new TreeMap<>();
    TreeMap<Long, Double> errorsOfChosen = new TreeMap<>();
    measured.forEach(
        (point, at) -> {
          if (point.way.equals(way)) {
            times.put(point.bytes, at.median());
            errors.put(point.bytes, at.error());
          }
          if (point.way.operation() == way.operation() && at.chosen) {
            errorsOfChosen.merge(point.bytes, at.error(), Math::max);
          }
        });
    TreeMap<Long, Double> points = new TreeMap<>();
    if (errorsOfChosen.isEmpty()) {
      return points;
    }
    predicted.forEach(
        (bytes, time) -> {
          double error =
              errors.isEmpty() ? Math.max(1, at(errorsOfChosen, bytes)) : at(errors, bytes);
          points.put(bytes, time * error);
        });
    points.putAll(times);
    return points;
  }

  /** Straight between two sizes on a logarithmic scale; beyond them as at the nearest. */
  private static double at(TreeMap<Long, Double> errors, long bytes) {
    Map.Entry<Long, Double> below = errors.floorEntry(bytes);
    Map.Entry<Long, Double> above = errors.ceilingEntry(bytes);
    if (below == null || above == null) {
      return (below == null ? above : below).getValue();
    }
    double span = Math.log((double) above.getKey() / below.getKey());
    double part = span == 0 ? 0 : Math.log((double) bytes / below.getKey()) / span;
    return below.getValue() + part * (above.getValue() - below.getValue());
  }

  /** A line for each operation and size: its ways, the fastest first. */
  private static List<String> report(String ranks, Map<Point, Measured> measured) {
    Map<String, List<Map.Entry<Point, Measured>>> bySize = new LinkedHashMap<>();
    measured.entrySet().stream()
        .sorted(
            Comparator.comparing((Map.Entry<Point, Measured> e) -> e.getKey().way.operation())
                .thenComparing(e -> e.getKey().bytes)
                .thenComparing(e -> e.getValue().median()))
        .forEach(
            each ->
                bySize
                    .computeIfAbsent(
                        String.format(
                            Locale.ROOT,
                            "%s ranks, %s of %d bytes:",
                            ranks,
                            each.getKey().way.operation().label(),
                            each.getKey().bytes),
                        missing -> new ArrayList<>())
                    .add(each));
    List<String> lines = new ArrayList<>();
    bySize.forEach(
        (size, ways) -> {
          List<String> words = new ArrayList<>();
          for (Map.Entry<Point, Measured> each : ways) {
            Way way = each.getKey().way;
            words.add(
                String.format(
                    Locale.ROOT,
                    "%s %s %.2f us%s",
                    way.algorithm().inTables(),
                    way.protocol().label(),
                    each.getValue().median(),
                    each.getValue().chosen ? " (chosen)" : ""));
          }
          lines.add(size + " " + String.join(", ", words));
        });
    return lines;
  }

  /**
   * The time that the trials took beyond the chosen ways' part of all calls' time, as the job
   * limits it: of each way the least time counts, since other work on the machine makes single
   * calls longer.
   */
  private static double share(List<Map<Call, Sample>> merged) {
    record Shape(long communicator, int shape) {}
    Map<Shape, List<Map.Entry<Call, Sample>>> shapes = new LinkedHashMap<>();
    merged.stream()
        .flatMap(calls -> calls.entrySet().stream())
        .forEach(
            each ->
                shapes
                    .computeIfAbsent(
                        new Shape(each.getKey().communicator, each.getKey().shape),
                        missing -> new ArrayList<>())
                    .add(each));
    double extra = 0;
    double all = 0;
    for (List<Map.Entry<Call, Sample>> calls : shapes.values()) {
      double chosen = least(calls, Sample::chosen);
      if (chosen < Double.POSITIVE_INFINITY) {
        long last = calls.stream().mapToLong(each -> each.getKey().call).max().orElse(0);
        all += chosen * (last + 1);
        for (Map.Entry<Call, Sample> each : calls) {
          Way way = each.getValue().way();
          extra +=
              each.getValue().chosen()
                  ? 0
                  : Math.max(0, least(calls, other -> other.way().equals(way)) - chosen);
        }
      }
    }
    return all == 0 ? 0 : extra / all;
  }

  private static double least(List<Map.Entry<Call, Sample>> calls, Predicate<Sample> of) {
    return calls.stream()
        .map(Map.Entry::getValue)
        .filter(of)
        .mapToDouble(Sample::measured)
        .min()
        .orElse(Double.POSITIVE_INFINITY);
  }
}
