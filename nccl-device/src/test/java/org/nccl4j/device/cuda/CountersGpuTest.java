package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.plan.KernelLayout;
import org.nccl4j.device.cuda.window.DirectLayout;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Kernels that have been launched so often that counts of theirs wrap around. Needs GPUs. */
@Tag("gpu")
class CountersGpuTest {
  private static final Duration DEADLINE = Duration.ofSeconds(5);
  private static final long PATIENCE_NANOS = 10_000_000_000L;
  private static final int BYTES = 8 << 20;

  private static final List<DirectGpuTest.Kind> KINDS =
      List.of(
          new DirectGpuTest.Kind(Operation.ALL_REDUCE, Algorithm.DIRECT_LL),
          new DirectGpuTest.Kind(Operation.ALL_REDUCE, Algorithm.DIRECT_TWO_SHOT),
          new DirectGpuTest.Kind(Operation.REDUCE_SCATTER, Algorithm.DIRECT_ONE_SHOT),
          new DirectGpuTest.Kind(Operation.ALL_GATHER, Algorithm.COPY_ENGINE_BATCH),
          new DirectGpuTest.Kind(Operation.ALL_GATHER, Algorithm.COPY_ENGINE),
          new DirectGpuTest.Kind(Operation.ALL_REDUCE, Algorithm.COPY_ENGINE),
          new DirectGpuTest.Kind(Operation.REDUCE_SCATTER, Algorithm.COPY_ENGINE));

  /** Also with flags that nobody has written yet. */
  @ParameterizedTest
  @ValueSource(ints = {0x3ffffff8, 0x7ffffff8, 0xbffffff8, 0xfffffff8})
  void directKernelsGoOnWhereTheirCountWraps(int epoch) {
    Random random = new Random(epoch);
    try (GpuRanks ranks = new GpuRanks(2, DEADLINE);
        DirectRanks windows = new DirectRanks(ranks, BYTES)) {
      setEpoch(windows, epoch);
      for (int round = 0; round < 3; round++) {
        for (DirectGpuTest.Kind kind : KINDS) {
          DataType type = DataType.INT32;
          int count = DirectGpuTest.fitting(kind, type, 2, 1 + random.nextInt(300_000));
          DirectGpuTest.check(ranks, windows, kind, type, RedOp.SUM, count, random);
        }
      }
    }
  }

  /** Blocks that no kernel has had for long wait for those of the other rank all the same. */
  @ParameterizedTest
  @ValueSource(ints = {0x40000001, 0x7ffffffe, 0x80000007, 0xc0000001, 0xfffffffe})
  void oldFlagsLetNobodyPass(int epoch) {
    try (GpuRanks ranks = new GpuRanks(2, DEADLINE);
        DirectRanks windows = new DirectRanks(ranks, BYTES)) {
      for (int rank = 0; rank < 2; rank++) {
        launchSum(ranks, windows, rank);
      }
      ranks.synchronize();
      setEpoch(windows, epoch);
      for (DeviceMemory send : windows.send) {
        send.fill((byte) 1);
      }
      launchSum(ranks, windows, 0);
      long start = System.nanoTime();
      int awaited = -1;
      while (awaited < 0 && System.nanoTime() - start < PATIENCE_NANOS / 4) {
        awaited = ranks.communicators.get(0).waitsFor();
      }
      assertEquals(1, awaited, "it did not wait");
      launchSum(ranks, windows, 1);
      ranks.synchronize();
      for (DeviceMemory recv : windows.recv) {
        ByteBuffer sums = DirectGpuTest.read(recv).order(ByteOrder.nativeOrder());
        while (sums.hasRemaining()) {
          assertEquals(0x02020202, sums.getInt());
        }
      }
    }
  }

  /** All blocks that there are. */
  private static void launchSum(GpuRanks ranks, DirectRanks windows, int rank) {
    WindowWork work =
        new WindowWork(
            Operation.ALL_REDUCE,
            Algorithm.DIRECT_TWO_SHOT,
            DataType.INT32,
            RedOp.SUM,
            0,
            BYTES / 4,
            windows.sends.get(rank),
            windows.recvs.get(rank),
            64);
    var communicator = ranks.communicators.get(rank);
    KernelPlan plan = communicator.prepare(work);
    communicator.launch(
        plan, windows.send.get(rank), windows.recv.get(rank), ranks.streams.get(rank));
  }

  private static void setEpoch(DirectRanks windows, int epoch) {
    for (DeviceMemory resources : windows.resources) {
      ByteBuffer words =
          ByteBuffer.allocateDirect(4 * DirectLayout.BLOCKS).order(ByteOrder.nativeOrder());
      while (words.hasRemaining()) {
        words.putInt(epoch);
      }
      resources.write(DirectLayout.of(2).epoch(), words.flip());
    }
  }

  /** Steps of connections, in all protocols. */
  @ParameterizedTest
  @ValueSource(longs = {1L << 16, 1L << 19, 1L << 22, 1L << 30, 1L << 31, 1L << 32, 1L << 47})
  void stepsGoOnWhereTheirFlagsWrap(long steps) {
    Random random = new Random(steps);
    try (GpuRanks ranks = new GpuRanks(2, DEADLINE)) {
      setSteps(ranks, steps - 20);
      for (int round = 0; round < 4; round++) {
        for (Protocol protocol : Protocol.values()) {
          for (Algorithm algorithm : new Algorithm[] {Algorithm.RING, Algorithm.TWO_SHOT}) {
            CollectiveWork work =
                new CollectiveWork(
                    Operation.ALL_REDUCE,
                    algorithm,
                    protocol,
                    DataType.INT32,
                    RedOp.SUM,
                    0,
                    1 + random.nextInt(20_000),
                    2,
                    1280);
            CollectiveGpuTest.check(ranks, work, random, steps);
          }
        }
      }
    }
  }

  private static void setSteps(GpuRanks ranks, long steps) {
    for (int rank = 0; rank < ranks.n; rank++) {
      for (int peer = 0; peer < ranks.n; peer++) {
        int bytes = ConnectionLayout.CHANNELS * KernelLayout.STEPS_BYTES;
        ByteBuffer words = ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
        for (int channel = 0; channel < ConnectionLayout.CHANNELS; channel++) {
          int at = channel * KernelLayout.STEPS_BYTES;
          words.putLong(at, steps).putLong(at + 8, steps).putLong(at + 16, steps);
        }
        long address = ranks.communicators.get(rank).memory().steps(peer);
        ranks.devices.get(rank).wrap(address, bytes).write(0, words);
      }
    }
  }
}
