package org.nccl4j.it.perf;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.it.perf.check.Verdict;
import org.nccl4j.it.perf.rank.Answer;
import org.nccl4j.it.perf.rank.Library;
import org.nccl4j.it.perf.rank.Order;
import org.nccl4j.it.perf.rank.Pace;
import org.nccl4j.it.perf.rank.Ranks;
import org.nccl4j.it.perf.workload.Cell;

/** Has the ranks time and check cells. Used by one thread. */
final class CellTimer {
  private final Ranks ranks;
  private final PerfSettings.How how;
  private final int deadlineSeconds;
  private long seed;

  CellTimer(Ranks ranks, PerfSettings.How how, int deadlineSeconds) {
    this.ranks = ranks;
    this.how = how;
    this.deadlineSeconds = deadlineSeconds;
  }

  /**
   * Microseconds an operation.
   *
   * @param expected the same as known so far; 0 if unknown
   */
  double micros(Cell cell, int warmup, int iterations, double expected) {
    return micros(cell, warmup, iterations, expected, Library.OURS);
  }

  /** The same of any library. */
  double micros(Cell cell, int warmup, int wanted, double expected, Library library) {
    int graph = Math.min(how.graph(), wanted);
    int iterations = graph > 0 ? wanted / graph * graph : wanted;
    Order order =
        new Order.Measure(
            cell, new Pace(warmup, iterations, how.aggregate(), how.blocking(), graph), library);
    List<Long> nanos = new ArrayList<>();
    double seconds = expected * (warmup + (double) iterations * how.aggregate()) / 1e6;
    for (Answer answer : ranks.all(order, patience(seconds))) {
      nanos.add(((Answer.Took) answer).nanos());
    }
    return how.averaging().of(nanos) / 1e3 / ((double) iterations * how.aggregate());
  }

  /** Checks all ranks together; null if checks are off. */
  Verdict check(Cell cell) {
    if (how.checks() == 0) {
      return null;
    }
    Verdict sum = Verdict.RIGHT;
    for (int check = 0; check < how.checks(); check++) {
      Order order = new Order.Check(cell, ++seed);
      int rank = 0;
      for (Answer answer : ranks.all(order, patience(0))) {
        Verdict verdict = ((Answer.Checked) answer).verdict();
        String first = verdict.first().isEmpty() ? "" : "rank " + rank + ": " + verdict.first();
        sum = sum.and(new Verdict(verdict.wrong(), verdict.outside(), first));
        rank++;
      }
    }
    return sum;
  }

  /** Returns the planner's choice for a cell. */
  Answer.Explained explanation(Cell cell) {
    return (Answer.Explained) ranks.one(0, new Order.Explain(cell), patience(0));
  }

  /** The engine's own deadline comes first; this one is for ranks that say nothing at all. */
  private Duration patience(double expectedSeconds) {
    return Duration.ofSeconds(deadlineSeconds + 30L + (long) (10 * expectedSeconds));
  }
}
