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

  /** An operation of a sequence, and where its data lie in the windows. */
  private record Link(
      Operation operation, Algorithm way, int root, int count, int blocks, int send, int recv) {
    static List<Link> all(int n, Random random, int links) {
      List<Operation> operations = Operation.ofAllRanks();
      List<Link> all = new ArrayList<>();
      int send = 0;
      int recv = 0;
      for (int i = 0; i < links; i++) {
        boolean lines = random.nextInt(5) > 0;
        Operation operation =
            lines ? operations.get(random.nextInt(operations.size())) : Operation.ALL_REDUCE;
        int count = 1 + random.nextInt(random.nextInt(4) == 0 ? 3000 : 40);
        Algorithm way = lines ? Algorithm.DIRECT_LL : Algorithm.DIRECT_ONE_SHOT;
        int root = operation.isRooted() ? random.nextInt(n) : 0;
        all.add(new Link(operation, way, root, count, 1 + random.nextInt(9), send, recv));
        send += count * operation.sendParts(n, /* isRoot= */ true);
        recv += count * operation.recvParts(n, /* isRoot= */ true);
      }
      return all;
    }

    /** The element that a rank receives, where it receives some. */
    int expected(int[][] sent, int rank, int at) {
      int sum = 0;
      for (int[] from : sent) {
        sum += from[send + (operation == Operation.REDUCE_SCATTER ? rank * count : 0) + at % count];
      }
      return switch (operation) {
        case BROADCAST -> sent[root][send + at];
        case SCATTER -> sent[root][send + rank * count + at];
        case ALL_GATHER, GATHER -> sent[at / count][send + at % count];
        case ALL_TO_ALL -> sent[at / count][send + rank * count + at % count];
        default -> sum;
      };
    }
  }

  /**
   * Operations with and without a root follow each other, of any number of blocks, in lines and
   * between barriers. A rank that has nothing to wait for must not overwrite what another has not
   * read. All of a rank's operations are launched before the next rank's.
   */
  @Test
  void operationsWithRootsFollowOthers() {
    try (GpuRanks ranks = new GpuRanks(CollectiveGpuTest.size(), DEADLINE);
        DirectRanks windows = new DirectRanks(ranks, MOST)) {
      int n = ranks.n;
      for (int round = 0; round < 10; round++) {
        List<Link> links = Link.all(n, new Random(round), 150);
        int elements = MOST / 4;
        int[][] sent = new int[n][];
        for (int rank = 0; rank < n; rank++) {
          sent[rank] = new Random(100L * round + rank).ints(elements).toArray();
          ByteBuffer data = ByteBuffer.allocateDirect(MOST).order(ByteOrder.nativeOrder());
          data.asIntBuffer().put(sent[rank]);
          windows.send.get(rank).write(0, data);
          windows.recv.get(rank).fill((byte) 0xA5);
        }
        for (int r = 0; r < n; r++) {
          int rank = (r + round) % n;
          for (Link link : links) {
            launch(ranks, windows, rank, link);
          }
        }
        ranks.synchronize();
        for (int rank = 0; rank < n; rank++) {
          ByteBuffer received = DirectGpuTest.read(windows.recv.get(rank));
          received.order(ByteOrder.nativeOrder());
          for (Link link : links) {
            int got = link.count * link.operation.recvParts(n, /* isRoot= */ rank == link.root);
            int room = link.count * link.operation.recvParts(n, /* isRoot= */ true);
            for (int i = 0; i < room; i++) {
              int expected = i < got ? link.expected(sent, rank, i) : 0xA5A5A5A5;
              assertEquals(
                  expected,
                  received.getInt(4 * (link.recv + i)),
                  link + ", rank " + rank + ", " + i);
            }
          }
        }
      }
    }
  }

  private static void launch(GpuRanks ranks, DirectRanks windows, int rank, Link link) {
    int n = ranks.n;
    boolean isRoot = rank == link.root;
    int sends = link.count * link.operation.sendParts(n, isRoot);
    int receives = link.count * link.operation.recvParts(n, isRoot);
    var communicator = ranks.communicators.get(rank);
    WindowWork work =
        new WindowWork(
            link.operation,
            link.way,
            DataType.INT32,
            RedOp.SUM,
            link.root,
            link.count,
            link.way.needsSend(link.operation) ? windows.sends.get(rank) : null,
            link.way.needsRecv(link.operation) ? windows.recvs.get(rank) : null,
            link.blocks);
    communicator.launch(
        communicator.prepare(work),
        sends == 0 ? null : windows.send.get(rank).slice(4L * link.send, 4L * sends),
        receives == 0 ? null : windows.recv.get(rank).slice(4L * link.recv, 4L * receives),
        ranks.streams.get(rank));
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
