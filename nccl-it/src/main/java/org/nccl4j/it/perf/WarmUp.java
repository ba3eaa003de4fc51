package org.nccl4j.it.perf;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.nccl4j.it.perf.report.Progress;
import org.nccl4j.it.perf.workload.Cell;

/**
 * Runs all cells of a sweep again and again until the just-in-time compiler has seen them all, and
 * finds out how long each takes.
 */
final class WarmUp {
  private static final double TURN_MICROS = 10_000;
  private static final int STEADY_TURNS = 5;

  /** Times whose ratio is less count as the same. */
  private static final double SAME = 1.25;

  private static final int MOST_TURNS = 40;

  /**
   * The same of the first cell. In a machine's first run the compilers of many processes still work
   * after the warm-up, since the classes came from a disk.
   */
  private static final int MOST_FIRST_TURNS = 200;

  private final Timer timer;
  private final long budgetMillis;

  /** True once a cell has been run until it was steady. */
  private boolean hasSettled;

  /** Time that is left for cells to become steady. */
  private long nanosToSettle;

  /** Runs operations of a cell. */
  interface Timer {
    /**
     * Microseconds an operation.
     *
     * @param expected the same as known so far; 0 if unknown
     */
    double micros(Cell cell, int iterations, double expected);
  }

  WarmUp(Timer timer, long budgetMillis) {
    this.timer = timer;
    this.budgetMillis = budgetMillis;
    this.nanosToSettle = TimeUnit.MILLISECONDS.toNanos(budgetMillis);
  }

  /**
   * Runs each cell at least once, and all of them until the time is over.
   *
   * @return microseconds that an operation of each takes
   */
  Map<Cell, Double> run(List<Cell> cells, Progress progress) {
    Map<Cell, Double> micros = new HashMap<>();
    long start = System.nanoTime();
    long spent = 0;
    for (int round = 0; round == 0 || spent < budgetMillis; round++) {
      for (Cell cell : cells) {
        if (round == 0) {
          micros.put(cell, timer.micros(cell, 1, 0));
        }
        // Also where the first took long: that may have been the code's first run.
        double known = micros.get(cell);
        micros.put(cell, timer.micros(cell, iterations(known), known));
        spent = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start);
        progress.to(Math.min(spent, budgetMillis));
        if (round > 0 && spent >= budgetMillis) {
          break;
        }
      }
    }
    return micros;
  }

  /**
   * Runs a cell until its time stays the same, right before it is measured: other cells, which go
   * other ways through the code, may have had the compiler throw code away. Does nothing for a long
   * operation, nor once all cells together have taken as long as the warm-up. Gives up after a
   * while, since another program may be what disturbs.
   *
   * @param known microseconds that an operation takes, as far as is known
   * @return the same, by now
   */
  double settle(Cell cell, double known) {
    double least = known;
    int steady = 0;
    int most = hasSettled ? MOST_TURNS : MOST_FIRST_TURNS;
    hasSettled = true;
    for (int turn = 0; turn < most && steady < STEADY_TURNS; turn++) {
      if (least >= TURN_MICROS || nanosToSettle <= 0) {
        return least;
      }
      long start = System.nanoTime();
      double time = timer.micros(cell, iterations(least), least);
      steady = time < least * SAME && least < time * SAME ? steady + 1 : 0;
      least = Math.min(least, time);
      nanosToSettle -= System.nanoTime() - start;
    }
    return least;
  }

  private static int iterations(double micros) {
    return (int) Math.max(1, Math.min(20_000, TURN_MICROS / Math.max(micros, 0.05)));
  }
}
