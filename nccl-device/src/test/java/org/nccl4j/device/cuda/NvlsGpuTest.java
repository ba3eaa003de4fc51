package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Emulated NVLS against random data, on 2 GPUs and on all, with poison around and in the outputs.
 * The switch's multicast is not used.
 */
@Tag("gpu")
class NvlsGpuTest {
  private static final Duration DEADLINE = Duration.ofSeconds(5);

  /** All it has of a type: odd counts, shifted and in place by chance, slots used many times. */
  @ParameterizedTest
  @EnumSource(DataType.class)
  void everyTypeAndOperator(DataType type) {
    long seed = 99 + type.ordinal();
    Random random = new Random(seed);
    int done = 0;
    for (int n : new int[] {2, CollectiveGpuTest.size()}) {
      try (GpuRanks ranks = new GpuRanks(n, DEADLINE, null, new NvlsLayout(n, 24, 1024))) {
        for (Operation operation : Operation.collectives()) {
          for (RedOp op : RedOp.values()) {
            if (!Nvls.has(operation, type, op)) {
              continue;
            }
            int[] counts = {1 + random.nextInt(40), random.nextInt(3000), random.nextInt(300_000)};
            for (int count : counts) {
              int channels = 1 + random.nextInt(count < 100 ? 2 : 24);
              int chunk = random.nextInt(3) == 0 ? 256 : Integer.MAX_VALUE;
              CollectiveGpuTest.check(
                  ranks, work(operation, type, op, count, channels, chunk), random, seed);
              done++;
            }
          }
        }
      }
    }
    int reductions = (type.bytes() >= 2 ? 2 : 0) + (hasOrder(type) ? 2 : 0);
    assertEquals(2 * 3 * (2 * reductions + RedOp.values().length), done);
  }

  /** Some ranks combine nothing, and have theirs combined. */
  @ParameterizedTest
  @EnumSource(names = {"FLOAT32", "FLOAT16", "INT32"})
  void fewerHeadsThanRanks(DataType type) {
    Random random = new Random(7);
    int n = CollectiveGpuTest.size();
    for (int heads : new int[] {1, n - 1}) {
      try (GpuRanks ranks = new GpuRanks(n, DEADLINE, null, new NvlsLayout(heads, 24, 1024))) {
        for (RedOp op : List.of(RedOp.SUM, RedOp.AVG)) {
          for (int count : new int[] {1 + random.nextInt(40), random.nextInt(300_000)}) {
            int channels = 1 + random.nextInt(24);
            CollectiveWork work =
                work(Operation.ALL_REDUCE, type, op, count, channels, Integer.MAX_VALUE);
            CollectiveGpuTest.check(ranks, work, random, heads);
          }
        }
      }
    }
  }

  private static boolean hasOrder(DataType type) {
    return Nvls.has(Operation.ALL_REDUCE, type, RedOp.MAX);
  }

  /** As large and with as many channels as in use, with what is summed in turn with ring. */
  @ParameterizedTest
  @ValueSource(ints = {300_001, 4_000_003})
  void largeFloats(int count) {
    Random random = new Random(count);
    int n = CollectiveGpuTest.size();
    try (GpuRanks ranks = new GpuRanks(n, DEADLINE, null, new NvlsLayout(n, 64, 32 << 10))) {
      for (Operation operation : Operation.collectives()) {
        if (!Nvls.has(operation)) {
          continue;
        }
        int part = operation == Operation.ALL_REDUCE ? count : count / n;
        for (int channels : new int[] {7, 64}) {
          CollectiveWork work =
              work(operation, DataType.FLOAT32, RedOp.SUM, part, channels, Integer.MAX_VALUE);
          CollectiveGpuTest.check(ranks, work, random, count);
          CollectiveGpuTest.check(ranks, byRing(work), random, count);
        }
      }
    }
  }

  private static CollectiveWork work(
      Operation operation, DataType type, RedOp op, int count, int channels, int chunk) {
    return new CollectiveWork(
        operation, Algorithm.NVLS, Protocol.SIMPLE, type, op, 0, count, channels, chunk);
  }

  private static CollectiveWork byRing(CollectiveWork work) {
    return new CollectiveWork(
        work.operation(),
        Algorithm.RING,
        work.protocol(),
        work.type(),
        work.op(),
        work.root(),
        work.count(),
        work.nChannels(),
        work.chunkBytes());
  }
}
