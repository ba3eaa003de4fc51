package org.nccl4j.api.init.probe;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongSupplier;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.device.NcclException;

/**
 * Measures cells together with all other ranks, within a budget of time, and some of them again at
 * the end: on GPUs that are busy with other work the two times differ. Cells that an earlier probe
 * has measured are left out, and large ones whose time follows from smaller ones. After each cell
 * the ranks exchange their times, so that all of them have the slowest rank's time of every cell,
 * end after the same cell, and know each other's failures before any rank launches.
 */
final class Probe {
  /** Times of short operations on idle GPUs differ by a tenth. */
  private static final double MOST_SPREAD = 1.5;

  /** From here on the links' bandwidth gives an algorithm's time of more bytes. */
  private static final double LONG_MICROS = 500;

  /** One in so many of the missing cells. */
  private static final int CONTINUED = 8;

  /** Points that a line needs. */
  private static final int LEAST_POINTS = 2;

  private final Bootstrap bootstrap;
  private final ProbeBench bench;
  private final KnownTimes earlier;
  private final LongSupplier clock;
  private final long budget;
  private final long start;
  private String failure = "";

  /** The times that an earlier probe has measured, among some cells. */
  @FunctionalInterface
  interface KnownTimes {
    Map<ProbeCell, Double> among(List<ProbeCell> cells);
  }

  /** The use of a probe's times. */
  enum Use {
    /** They are kept for all processes, which measure no more. */
    FINAL,
    /** The next creation adds to them. */
    NEXT_CREATION,
    /** This process measures no more, and the next one adds to them. */
    NEXT_PROCESS,
    /** They are used by this process alone, and the next one begins anew. */
    THIS_PROCESS
  }

  /**
   * The result of all ranks.
   *
   * @param times microseconds of the cells that were measured now
   * @param known of those that were measured earlier
   * @param cells that there are
   * @param leftOut of these, since smaller ones take long
   * @param failure of a rank, "" without one
   * @param micros the time that it took
   * @param spread the greatest ratio of two times of a cell; the lesser one counts
   */
  record Result(
      Map<ProbeCell, Double> times,
      Map<ProbeCell, Double> known,
      int cells,
      int leftOut,
      String failure,
      long micros,
      double spread) {
    /** True if the times differ by more than those of idle GPUs. */
    boolean isDisturbed() {
      return spread > MOST_SPREAD;
    }

    /** The times of now and earlier. */
    Map<ProbeCell, Double> all() {
      Map<ProbeCell, Double> all = new LinkedHashMap<>(known);
      all.putAll(times);
      return all;
    }

    /** True if no cell is missing. */
    boolean isComplete() {
      return all().size() + leftOut == cells;
    }

    /**
     * True if another probe would measure many of the cells that are missing: one that goes on has
     * measured an eighth of what was missing at its begin.
     */
    boolean isWorthContinuing() {
      int missing = cells - leftOut - known.size();
      return !isComplete() && (known.isEmpty() || CONTINUED * times.size() >= missing);
    }

    /**
     * The use of the times.
     *
     * @param wholeBudget whether the probe had the time that it has unless a setting shortens it
     */
    Use use(boolean wholeBudget) {
      if (isDisturbed()) {
        return Use.THIS_PROCESS;
      }
      if (isComplete()) {
        return Use.FINAL;
      }
      if (isWorthContinuing()) {
        return Use.NEXT_CREATION;
      }
      return wholeBudget && !times.isEmpty() ? Use.FINAL : Use.NEXT_PROCESS;
    }
  }

  /** One rank's part of an exchange; left is what remains of its budget, in nanoseconds. */
  private record Report(double microseconds, long left, String failure) {
    byte[] toBytes() {
      byte[] text = failure.getBytes(StandardCharsets.UTF_8);
      return ByteBuffer.allocate(Double.BYTES + Long.BYTES + text.length)
          .putDouble(microseconds)
          .putLong(left)
          .put(text)
          .array();
    }

    static Report fromBytes(byte[] bytes) {
      ByteBuffer in = ByteBuffer.wrap(bytes);
      double microseconds = in.getDouble();
      long left = in.getLong();
      return new Report(microseconds, left, StandardCharsets.UTF_8.decode(in.slice()).toString());
    }
  }

  /**
   * A probe, whose budget begins now.
   *
   * @param earlier times, the same on all ranks
   * @param budget the time after which no further cell is begun, except for the first few; the
   *     shortest of all ranks' counts
   * @param clock in nanoseconds, as System.nanoTime
   */
  Probe(
      Bootstrap bootstrap,
      ProbeBench bench,
      KnownTimes earlier,
      Duration budget,
      LongSupplier clock) {
    this.bootstrap = bootstrap;
    this.bench = bench;
    this.earlier = earlier;
    this.clock = clock;
    this.budget = budget.toNanos();
    this.start = clock.getAsLong();
  }

  /**
   * Measures as many cells as there is time for.
   *
   * @throws NcclException if an operation still waits for another rank: the connections cannot be
   *     used any more; or as {@link Bootstrap#allGather}
   */
  Result run() {
    Map<ProbeCell, Double> times = new LinkedHashMap<>();
    List<ProbeCell> cells = List.of();
    Map<ProbeCell, Double> known = Map.of();
    double spread = 1;
    boolean registered = false;
    attempt(bench::allocate);
    mayGoOn(exchange(0));
    if (failure.isEmpty()) {
      attempt(bench::register); // on all ranks or on none
      registered = failure.isEmpty();
    }
    if (registered) {
      cells = ProbePlan.of(bench::has);
      known = earlier.among(cells);
      measure(missing(cells, known), known.isEmpty() ? firstCurve(cells) : 0, known, times);
      spread = lookAgain(times);
    }
    boolean idle = bench.isIdle();
    if (!idle) {
      throw bench.stuck();
    }
    if (registered) {
      bench.deregister();
    }
    bench.free();
    return new Result(
        times,
        known,
        cells.size(),
        leftOut(cells, known, times),
        failure,
        elapsed() / 1000,
        spread);
  }

  private static List<ProbeCell> missing(List<ProbeCell> cells, Map<ProbeCell, Double> known) {
    return cells.stream().filter(cell -> !known.containsKey(cell)).toList();
  }

  private static int leftOut(
      List<ProbeCell> cells, Map<ProbeCell, Double> known, Map<ProbeCell, Double> times) {
    return (int)
        cells.stream()
            .filter(cell -> !known.containsKey(cell) && !times.containsKey(cell))
            .filter(cell -> follows(cell, known, times))
            .count();
  }

  /**
   * True if the time of a cell follows from those of two smaller ones: the largest took long, and
   * no less than the one before. A disturbed time of a small one says nothing of the bandwidth.
   */
  private static boolean follows(
      ProbeCell cell, Map<ProbeCell, Double> known, Map<ProbeCell, Double> times) {
    List<Double> smaller =
        Stream.of(known, times)
            .flatMap(some -> some.entrySet().stream())
            .filter(other -> other.getKey().isSmaller(cell))
            .sorted(Comparator.comparing(other -> other.getKey().bytes()))
            .map(Map.Entry::getValue)
            .toList();
    int last = smaller.size() - 1;
    return smaller.size() >= LEAST_POINTS
        && smaller.get(last) > LONG_MICROS
        && smaller.get(last) >= smaller.get(last - 1);
  }

  /**
   * Measures some of the cells again, in the middle of the others: GPUs that were idle before are
   * slower at first.
   *
   * @return the greatest ratio of two times
   */
  private double lookAgain(Map<ProbeCell, Double> times) {
    List<ProbeCell> all = List.copyOf(times.keySet());
    double spread = 1;
    if (!failure.isEmpty() || all.isEmpty()) {
      return spread;
    }
    List<ProbeCell> looks =
        IntStream.of(1, 2, 3).mapToObj(at -> at * all.size() / 4).distinct().map(all::get).toList();
    Map<ProbeCell, Double> again = new LinkedHashMap<>();
    measure(looks, looks.size(), Map.of(), again);
    for (Map.Entry<ProbeCell, Double> look : again.entrySet()) {
      double before = times.get(look.getKey());
      spread = Math.max(spread, Math.max(before / look.getValue(), look.getValue() / before));
      times.merge(look.getKey(), look.getValue(), Math::min);
    }
    return spread;
  }

  /**
   * Measures cells as long as there is time.
   *
   * @param certain the number of cells that are measured in any case
   * @param known earlier times
   */
  private void measure(
      List<ProbeCell> cells,
      int certain,
      Map<ProbeCell, Double> known,
      Map<ProbeCell, Double> times) {
    Deque<ProbeCell> left = new ArrayDeque<>(cells);
    double[] took = {0};
    ProbeCell last = null;
    while (true) {
      ProbeCell next = next(left, known, times);
      if (next != null) {
        attempt(() -> bench.prepare(next));
      }
      List<Report> all = exchange(took[0]);
      boolean goesOn = mayGoOn(all);
      if (last != null && failure.isEmpty()) {
        times.put(last, all.stream().mapToDouble(Report::microseconds).max().orElseThrow());
      }
      if (next == null || !goesOn && !(failure.isEmpty() && times.size() < certain)) {
        return;
      }
      attempt(() -> took[0] = bench.measure(next));
      last = next;
    }
  }

  /** The next cell that is to be measured, or null; the same on all ranks. */
  private static ProbeCell next(
      Deque<ProbeCell> left, Map<ProbeCell, Double> known, Map<ProbeCell, Double> times) {
    ProbeCell next = left.poll();
    while (next != null && follows(next, known, times)) {
      next = left.poll();
    }
    return next;
  }

  /** Cells that are measured in any case, since a table of nothing would be worth nothing. */
  private static int firstCurve(List<ProbeCell> cells) {
    Set<String> lines = new HashSet<>();
    int certain = 0;
    while (certain < cells.size() && lines.add(cells.get(certain).line(1))) {
      certain++;
    }
    return certain + 1;
  }

  private void attempt(Runnable step) {
    if (failure.isEmpty()) {
      try {
        step.run();
      } catch (NcclException e) {
        failure = e.getMessage();
      }
    }
  }

  private List<Report> exchange(double microseconds) {
    List<Report> all = new ArrayList<>();
    for (byte[] each :
        bootstrap.allGather(new Report(microseconds, budget - elapsed(), failure).toBytes())) {
      all.add(Report.fromBytes(each));
    }
    return all;
  }

  /** True if no rank has failed and there is time left on all of them. */
  private boolean mayGoOn(List<Report> all) {
    failure = "";
    for (int rank = 0; rank < all.size() && failure.isEmpty(); rank++) {
      String theirs = all.get(rank).failure;
      failure = theirs.isEmpty() ? "" : "rank %d: %s".formatted(rank, theirs);
    }
    return failure.isEmpty() && all.stream().allMatch(report -> report.left > 0);
  }

  private long elapsed() {
    return clock.getAsLong() - start;
  }
}
