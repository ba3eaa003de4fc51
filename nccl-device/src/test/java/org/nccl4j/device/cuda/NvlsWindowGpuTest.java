package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.DirectGpuTest.Kind;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/**
 * NVLS straight on windows, emulated, against random data, on 2 GPUs and on all, with poison around
 * and in the outputs. The switch's multicast is not used.
 */
@Tag("gpu")
class NvlsWindowGpuTest {
  private static final Duration DEADLINE = Duration.ofSeconds(5);
  private static final int BYTES = 16 << 20;
  private static final List<Kind> KINDS =
      List.of(
          new Kind(Operation.ALL_REDUCE, Algorithm.DIRECT_NVLS),
          new Kind(Operation.ALL_REDUCE, Algorithm.DIRECT_NVLS_LL),
          new Kind(Operation.REDUCE_SCATTER, Algorithm.DIRECT_NVLS),
          new Kind(Operation.ALL_GATHER, Algorithm.DIRECT_NVLS),
          new Kind(Operation.ALL_GATHER, Algorithm.DIRECT_NVLS_LL),
          // In between: they use the same lines and the same count of kernels.
          new Kind(Operation.ALL_REDUCE, Algorithm.DIRECT_LL));

  /** All it has of a type: odd counts, shifted and in place by chance. */
  @ParameterizedTest
  @EnumSource(DataType.class)
  void everyTypeAndOperator(DataType type) {
    Random random = new Random(31 + type.ordinal());
    int done = 0;
    for (int n : new int[] {2, CollectiveGpuTest.size()}) {
      try (GpuRanks ranks = new GpuRanks(n, DEADLINE, null, new NvlsLayout(n, 64, 512));
          DirectRanks windows = new DirectRanks(ranks, BYTES)) {
        for (Kind kind : KINDS) {
          List<RedOp> ops =
              kind.operation().reduces() ? List.of(RedOp.values()) : List.of(RedOp.SUM);
          for (RedOp op : ops) {
            if (Nvls.has(kind.operation(), kind.way(), type, op)) {
              int[] counts = {
                1 + random.nextInt(40), 1 + random.nextInt(3000), 30_000 + random.nextInt(9999)
              };
              for (int count : counts) {
                int fitting = DirectGpuTest.fitting(kind, type, n, count);
                DirectGpuTest.check(ranks, windows, kind, type, op, fitting, random);
                done++;
              }
            }
          }
        }
      }
    }
    boolean order = Nvls.has(Operation.ALL_REDUCE, Algorithm.DIRECT_NVLS, type, RedOp.MAX);
    int each = type.bytes() < 2 ? 0 : order ? 4 : 2; // sum and mean, and least and greatest
    assertEquals(2 * 3 * (3 * each + 2 + RedOp.values().length), done);
  }

  /** Enough that every thread has several packs; and fewer heads than ranks. */
  @Test
  void largeFloats() {
    Random random = new Random(77);
    int n = CollectiveGpuTest.size();
    for (int heads : new int[] {n, n - 1, 1}) {
      try (GpuRanks ranks = new GpuRanks(n, DEADLINE, null, new NvlsLayout(heads, 64, 512));
          DirectRanks windows = new DirectRanks(ranks, BYTES)) {
        for (Kind kind : KINDS) {
          boolean whole = kind.operation() == Operation.ALL_REDUCE;
          if (!kind.way().isLines() && (whole || heads == n)) {
            for (int count : new int[] {100_003, 800_000 / (whole ? 1 : n) * 4}) {
              DirectGpuTest.check(ranks, windows, kind, DataType.FLOAT32, RedOp.SUM, count, random);
            }
          }
        }
      }
    }
  }
}
