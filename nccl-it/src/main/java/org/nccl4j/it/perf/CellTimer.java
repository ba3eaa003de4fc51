package org.nccl4j.it.perf;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.ToDoubleFunction;
import org.nccl4j.it.perf.check.CheckResult;
import org.nccl4j.it.perf.rank.Command;
import org.nccl4j.it.perf.rank.IterationPlan;
import org.nccl4j.it.perf.rank.Library;
import org.nccl4j.it.perf.rank.Ranks;
import org.nccl4j.it.perf.rank.Reply;
import org.nccl4j.it.perf.workload.Cell;

/** Has the ranks time and check cells. Used by one thread. */
final class CellTimer {
  private final Ranks ranks;
  private final PerfSettings.How how;
  private final int deadlineSeconds;
  private long seed;
  private int blocks;

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
    Command order =
        new Command.Measure(
            cell,
            new IterationPlan(warmup, iterations, how.aggregate(), how.blocking(), graph),
            library);
    List<Long> nanos = new ArrayList<>();
    double seconds = expected * (warmup + (double) iterations * how.aggregate()) / 1e6;
    for (Reply answer : ranks.all(order, patience(seconds))) {
      nanos.add(((Reply.Took) answer).nanos());
      blocks = ((Reply.Took) answer).blocks();
    }
    return how.averaging().of(nanos) / 1e3 / ((double) iterations * how.aggregate());
  }

  /** Returns the blocks of the operation that was measured last; 0 if they are unknown. */
  int blocks() {
    return blocks;
  }

  /**
   * Times a cell's operations and a computation, alone and at the same time; means of all ranks.
   */
  Reply.Overlapped overlap(Command.Overlap order, double expected) {
    double seconds = 20 * (order.calls() * expected + order.micros()) / 1e6;
    List<Reply.Overlapped> all =
        ranks.all(order, patience(seconds)).stream().map(Reply.Overlapped.class::cast).toList();
    return new Reply.Overlapped(
        mean(all, Reply.Overlapped::computation),
        mean(all, Reply.Overlapped::operations),
        mean(all, Reply.Overlapped::computationBeside),
        mean(all, Reply.Overlapped::operationsBeside),
        all.get(0).blocks());
  }

  private static double mean(
      List<Reply.Overlapped> all, ToDoubleFunction<Reply.Overlapped> figure) {
    return all.stream().mapToDouble(figure).average().orElse(0);
  }

  /** Checks all ranks together; null if checks are off. */
  CheckResult check(Cell cell) {
    if (how.checks() == 0) {
      return null;
    }
    CheckResult sum = CheckResult.RIGHT;
    for (int check = 0; check < how.checks(); check++) {
      Command order = new Command.Check(cell, ++seed);
      int rank = 0;
      for (Reply answer : ranks.all(order, patience(0))) {
        CheckResult verdict = ((Reply.Checked) answer).verdict();
        String first = verdict.first().isEmpty() ? "" : "rank " + rank + ": " + verdict.first();
        sum = sum.and(new CheckResult(verdict.wrong(), verdict.outside(), first));
        rank++;
      }
    }
    return sum;
  }

  /** Returns the planner's choice for a cell. */
  Reply.Explained explanation(Cell cell) {
    return (Reply.Explained) ranks.one(0, new Command.Explain(cell), patience(0));
  }

  /** The engine's own deadline comes first; this one is for ranks that say nothing at all. */
  private Duration patience(double expectedSeconds) {
    return Duration.ofSeconds(deadlineSeconds + 30L + (long) (10 * expectedSeconds));
  }
}
