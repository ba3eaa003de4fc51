package org.nccl4j.it.perf;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.perf.report.Progress;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.Workload;

class WarmUpTest {
  private static final Cell SMALL = cell(2);
  private static final Cell LARGE = cell(1 << 20);

  private static Cell cell(long elements) {
    return new Cell(Workload.ALL_REDUCE, DataType.FLOAT32, RedOp.SUM, 0, elements, false);
  }

  /** Else the cell would be measured by so few iterations that the ranks' start counts. */
  @Test
  void aFirstCallThatTookLongIsNotTheExpectedTime() {
    Map<Cell, Integer> calls = new HashMap<>();
    WarmUp.Timer timer =
        (cell, iterations, expected) ->
            calls.merge(cell, iterations, Integer::sum) == 1 ? 200_000 : cell.elements();
    assertEquals(
        Map.of(SMALL, 2.0, LARGE, 1048576.0),
        new WarmUp(timer, 0).run(List.of(SMALL, LARGE), new Progress(false, "test", 1)));
  }

  /** Compiled code comes bit by bit. */
  @Test
  void aCellIsSteadyOnceItGetsNoFaster() {
    int[] turn = new int[1];
    WarmUp.Timer timer =
        (cell, iterations, expected) -> Math.max(2, 1000 * Math.pow(0.7, turn[0]++));
    WarmUp warmUp = new WarmUp(timer, 100_000);
    assertEquals(2, warmUp.settle(SMALL, 1000));
    assertTrue(turn[0] < 40, "turns: " + turn[0]);
  }

  /** In a machine's first run it takes long until the compilers have nothing left to do. */
  @Test
  void theFirstCellMayTakeLongerUntilItIsSteady() {
    int[] turn = new int[1];
    WarmUp.Timer timer =
        (cell, iterations, expected) -> turn[0]++ < 150 ? turn[0] % 2 * 50 + 20 : 2;
    WarmUp warmUp = new WarmUp(timer, 100_000);
    assertEquals(2, warmUp.settle(SMALL, 1000));
    assertTrue(turn[0] > 150, "turns: " + turn[0]);
    turn[0] = 0;
    assertEquals(20, warmUp.settle(SMALL, 1000), "a later cell");
    assertEquals(40, turn[0]);
  }

  @Test
  void longOperationsAndSweepsWithoutWarmUpAreNotSettled() {
    WarmUp.Timer timer =
        (cell, iterations, expected) -> {
          throw new AssertionError("ran");
        };
    WarmUp without = new WarmUp(timer, 0);
    assertEquals(5, without.settle(SMALL, 5));
    WarmUp with = new WarmUp(timer, 100_000);
    assertEquals(10_000, with.settle(LARGE, 10_000));
  }
}
