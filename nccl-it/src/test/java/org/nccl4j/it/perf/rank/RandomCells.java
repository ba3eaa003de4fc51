package org.nccl4j.it.perf.rank;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.Random;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.Workload;

/** Random operations, and whether ranks do them right. */
final class RandomCells {
  static final Duration PATIENCE = Duration.ofSeconds(300);

  private RandomCells() {}

  /** Sizes are spread over the powers of two, and mostly odd. */
  static Cell next(Random random, Workload workload, int ranks, int mostBytes) {
    DataType type = DataType.values()[random.nextInt(DataType.values().length)];
    RedOp op = RedOp.values()[random.nextInt(RedOp.values().length)];
    int powers = Integer.SIZE - Integer.numberOfLeadingZeros(mostBytes);
    long bytes = 1 + random.nextInt(1 << random.nextInt(powers));
    return new Cell(
        workload,
        type,
        workload.reduces() ? op : RedOp.SUM,
        workload.rooted() ? random.nextInt(ranks) : 0,
        Math.min(bytes, mostBytes) / type.bytes(),
        workload.hasInPlace() && random.nextBoolean());
  }

  static void check(Ranks ranks, Cell cell, long seed) {
    for (Reply answer : ranks.all(new Command.Check(cell, seed), PATIENCE)) {
      var verdict = ((Reply.Checked) answer).verdict();
      assertEquals(0, verdict.wrong() + verdict.outside(), () -> cell + ": " + verdict.first());
    }
  }
}
