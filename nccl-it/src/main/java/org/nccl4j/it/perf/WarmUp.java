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
  private static final int MOST_TURNS = 60;

  private final CellTimer timer;
  private final long budgetMillis;

  WarmUp(CellTimer timer, long budgetMillis) {
    this.timer = timer;
    this.budgetMillis = budgetMillis;
  }

  /**
   * Runs each cell at least once, and all of them until the time is over; then, for at most as long
   * again, each small one until it is steady: sizes go different ways through the code.
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
          double first = timer.micros(cell, 0, 1, 0);
          micros.put(cell, first);
        }
        double known = micros.get(cell);
        int iterations = (int) Math.max(1, Math.min(20_000, TURN_MICROS / Math.max(known, 0.05)));
        if (iterations > 1 || round > 0) {
          micros.put(cell, timer.micros(cell, 0, iterations, known));
        }
        spent = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start);
        progress.to(Math.min(spent, budgetMillis));
        if (round > 0 && spent >= budgetMillis) {
          break;
        }
      }
    }
    if (budgetMillis > 0) {
      long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(budgetMillis);
      for (Cell cell : cells) {
        if (micros.get(cell) < TURN_MICROS && System.nanoTime() - end < 0) {
          settle(cell, micros);
        }
      }
    }
    return micros;
  }

  /**
   * Runs one cell until its time stays the same: the compiler is then done in the background too.
   * Gives up after a while, since another program may be what disturbs.
   */
  private void settle(Cell cell, Map<Cell, Double> micros) {
    double least = micros.get(cell);
    int steady = 0;
    for (int turn = 0; turn < MOST_TURNS && steady < STEADY_TURNS; turn++) {
      int iterations = (int) Math.max(1, Math.min(20_000, TURN_MICROS / Math.max(least, 0.05)));
      double time = timer.micros(cell, 0, iterations, least);
      steady = time < least * 1.25 ? steady + 1 : 0;
      least = Math.min(least, time);
    }
    micros.put(cell, least);
  }
}
