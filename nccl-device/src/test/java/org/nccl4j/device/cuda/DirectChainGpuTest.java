package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** Direct kernels that take what others have just left in the windows. Needs GPUs. */
@Tag("gpu")
class DirectChainGpuTest {
  private static final Duration DEADLINE = Duration.ofSeconds(5);
  private static final int MOST = 16 << 20;

  /**
   * Each kernel takes what the one before wrote, all to all from one window to another and back, by
   * both ways and any number of blocks, launched singly and in graphs: an even number of them gives
   * what there was.
   */
  @Test
  void kernelsOfAllNumbersOfBlocksFollowEachOther() {
    try (GpuRanks ranks = new GpuRanks(CollectiveGpuTest.size(), DEADLINE);
        DirectRanks windows = new DirectRanks(ranks, MOST)) {
      int n = ranks.n;
      int count = 12_345;
      List<ByteBuffer> before = new ArrayList<>();
      List<CudaGraph> graphs = new ArrayList<>();
      for (int rank = 0; rank < n; rank++) {
        ByteBuffer data = ByteBuffer.allocateDirect(4 * count * n);
        new Random(rank).ints(count * n).forEach(data::putInt);
        windows.send.get(rank).write(0, data.flip());
        before.add(data.flip());
        ranks.streams.get(rank).beginCapture();
        transposes(ranks, windows, rank, count, new Random(5), 40);
        graphs.add(ranks.streams.get(rank).endCapture());
      }
      for (int round = 0; round < 10; round++) {
        for (int rank = 0; rank < n; rank++) {
          transposes(ranks, windows, rank, count, new Random(round), 50);
          graphs.get(rank).launch(ranks.streams.get(rank));
        }
      }
      ranks.synchronize();
      for (int rank = 0; rank < n; rank++) {
        ByteBuffer after = DirectGpuTest.read(windows.send.get(rank).slice(0, 4L * count * n));
        assertEquals(-1, before.get(rank).rewind().mismatch(after), "rank " + rank);
      }
      graphs.forEach(CudaGraph::close);
    }
  }

  /** All ranks draw the same. */
  private static void transposes(
      GpuRanks ranks, DirectRanks windows, int rank, int count, Random random, int kernels) {
    var communicator = ranks.communicators.get(rank);
    for (int i = 0; i < kernels; i++) {
      boolean back = i % 2 == 1;
      Algorithm way = random.nextBoolean() ? Algorithm.DIRECT_LL : Algorithm.DIRECT_ONE_SHOT;
      WindowWork work =
          new WindowWork(
              Operation.ALL_TO_ALL,
              way,
              DataType.INT32,
              RedOp.SUM,
              0,
              count,
              null,
              way == Algorithm.DIRECT_LL ? null : (back ? windows.sends : windows.recvs).get(rank),
              1 << random.nextInt(8) | random.nextInt(2));
      communicator.launch(
          communicator.prepare(work),
          (back ? windows.recv : windows.send).get(rank),
          (back ? windows.send : windows.recv).get(rank),
          ranks.streams.get(rank));
    }
  }

  /**
   * Each kernel combines what the one before has just written into its own window, where the other
   * ranks read it.
   */
  @Test
  void whatAKernelLeavesIsReadByOthersInTheNext() {
    try (GpuRanks ranks = new GpuRanks(CollectiveGpuTest.size(), DEADLINE);
        DirectRanks windows = new DirectRanks(ranks, MOST)) {
      Random random = new Random(17);
      for (int round = 0; round < 30; round++) {
        int count = 1 + random.nextInt(round % 3 == 0 ? 200_000 : 3000);
        int[] sums = new int[count];
        for (int rank = 0; rank < ranks.n; rank++) {
          ByteBuffer data = ByteBuffer.allocateDirect(4 * count).order(ByteOrder.nativeOrder());
          for (int i = 0; i < count; i++) {
            int value = random.nextInt();
            sums[i] += value;
            data.putInt(value);
          }
          windows.send.get(rank).write(0, data.flip());
        }
        int kernels = 6;
        long seed = random.nextLong();
        for (int rank = 0; rank < ranks.n; rank++) {
          sums(ranks, windows, rank, count, new Random(seed), kernels);
        }
        ranks.synchronize();
        int factor = (int) Math.pow(ranks.n, kernels - 1);
        for (int rank = 0; rank < ranks.n; rank++) {
          ByteBuffer data = DirectGpuTest.read(windows.send.get(rank).slice(0, 4L * count));
          data.order(ByteOrder.nativeOrder());
          for (int i = 0; i < count; i++) {
            assertEquals(factor * sums[i], data.getInt(), "round " + round + ", element " + i);
          }
        }
      }
    }
  }

  private static void sums(
      GpuRanks ranks, DirectRanks windows, int rank, int count, Random random, int kernels) {
    var communicator = ranks.communicators.get(rank);
    for (int i = 0; i < kernels; i++) {
      boolean back = i % 2 == 1;
      WindowWork work =
          new WindowWork(
              Operation.ALL_REDUCE,
              random.nextInt(3) == 0 ? Algorithm.DIRECT_TWO_SHOT : Algorithm.DIRECT_ONE_SHOT,
              DataType.INT32,
              RedOp.SUM,
              0,
              count,
              (back ? windows.recvs : windows.sends).get(rank),
              (back ? windows.sends : windows.recvs).get(rank),
              1 + random.nextInt(20));
      communicator.launch(
          communicator.prepare(work),
          (back ? windows.recv : windows.send).get(rank),
          (back ? windows.send : windows.recv).get(rank),
          ranks.streams.get(rank));
    }
  }

  @Test
  void aMissingRankIsATimeout() {
    try (GpuRanks ranks = new GpuRanks(CollectiveGpuTest.size(), Duration.ofMillis(200));
        DirectRanks windows = new DirectRanks(ranks, MOST)) {
      transposes(ranks, windows, 0, 12_345, new Random(3), 8);
      assertThrows(TimeoutException.class, () -> ranks.streams.get(0).synchronize());
    }
  }
}
