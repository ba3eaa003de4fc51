package org.nccl4j.api.init.probe;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;
import java.util.stream.IntStream;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.device.NcclException;

/**
 * Measures cells together with all other ranks, within a budget of time, and some of them again at
 * the end: on GPUs that are busy with other work the two times differ. After each cell the ranks
 * exchange their times, so that all of them have the slowest rank's time of every cell, end after
 * the same cell, and know each other's failures before any rank launches.
 */
final class Probe {
  /** Times of short operations on idle GPUs differ by a tenth. */
  private static final double MOST_SPREAD = 1.5;

  private final Bootstrap bootstrap;
  private final ProbeBench bench;
  private final LongSupplier clock;
  private final long budget;
  private final long start;
  private String failure = "";

  /**
   * The result of all ranks.
   *
   * @param times microseconds of the cells that were measured
   * @param cells that there were to measure
   * @param failure of a rank, "" without one
   * @param micros the time that it took
   * @param spread the greatest ratio of two times of a cell; the lesser one counts
   */
  record Result(
      Map<ProbeCell, Double> times, int cells, String failure, long micros, double spread) {
    /** True if the times differ by more than those of idle GPUs. */
    boolean isDisturbed() {
      return spread > MOST_SPREAD;
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
   * @param budget the time after which no further cell is begun, except for the first few; the
   *     shortest of all ranks' counts
   * @param clock in nanoseconds, as System.nanoTime
   */
  Probe(Bootstrap bootstrap, ProbeBench bench, Duration budget, LongSupplier clock) {
    this.bootstrap = bootstrap;
    this.bench = bench;
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
      measure(cells, firstCurve(cells), times);
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
    return new Result(times, cells.size(), failure, elapsed() / 1000, spread);
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
    measure(looks, looks.size(), again);
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
   */
  private void measure(List<ProbeCell> cells, int certain, Map<ProbeCell, Double> times) {
    double[] last = {0};
    for (int c = 0; c <= cells.size(); c++) {
      ProbeCell next = c < cells.size() ? cells.get(c) : null;
      if (next != null) {
        attempt(() -> bench.prepare(next));
      }
      List<Report> all = exchange(last[0]);
      boolean goesOn = mayGoOn(all);
      if (c > 0 && failure.isEmpty()) {
        times.put(
            cells.get(c - 1), all.stream().mapToDouble(Report::microseconds).max().orElseThrow());
      }
      if (next == null || !goesOn && !(failure.isEmpty() && c < certain)) {
        return;
      }
      attempt(() -> last[0] = bench.measure(next));
    }
  }

  /** Cells that are measured in any case, since a table of nothing would be worth nothing. */
  private static int firstCurve(List<ProbeCell> cells) {
    return (int)
        cells.stream().takeWhile(cell -> cell.line(1).equals(cells.get(0).line(1))).count();
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
