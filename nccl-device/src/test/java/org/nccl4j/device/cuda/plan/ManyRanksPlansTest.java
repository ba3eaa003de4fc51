package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.function.IntUnaryOperator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.DataType;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.Progress;
import org.nccl4j.device.kernel.Tree;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Plans of communicators with more ranks than a byte has, and the kernels' schedules with them. */
@Timeout(600)
class ManyRanksPlansTest extends AgainstFakeCuda {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);
  private static final int MOST = 65_535;
  private static final int RANKS = 300;
  private static final int CHANNELS = 2;
  private static final int COUNT = 4800; // a chunk of all-reduce for each rank
  private static final int ROOT = 299;

  @TempDir static Path folder;

  @BeforeEach
  void assumeKernels() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
  }

  private static KernelCommunicatorSpec spec(int rank, int n, List<int[]> rings) {
    List<Connection> none = Collections.nCopies(n, null);
    return new KernelCommunicatorSpec(
        "test",
        rank,
        n,
        device().connectionLayout(8),
        none,
        none,
        rings,
        List.of(chain(rank, n), heap(rank, n)),
        8,
        Progress.NONE,
        Duration.ofSeconds(3));
  }

  private static CudaDevice device() {
    return CudaDevices.probe().list().get(0);
  }

  /** From the first rank up to the last. */
  private static Tree chain(int rank, int n) {
    IntUnaryOperator parents = of -> of + 1 < n ? of + 1 : -1;
    return new Tree(parents.applyAsInt(rank), rank == 0 ? List.of() : List.of(rank - 1), parents);
  }

  private static Tree heap(int rank, int n) {
    List<Integer> down = new ArrayList<>();
    for (int child = 2 * rank + 1; child <= 2 * rank + 2 && child < n; child++) {
      down.add(child);
    }
    IntUnaryOperator parents = of -> of == 0 ? -1 : (of - 1) / 2;
    return new Tree(parents.applyAsInt(rank), down, parents);
  }

  private static int[] ring(int n, Random random) {
    List<Integer> ranks = new ArrayList<>(IntStream.range(0, n).boxed().toList());
    Collections.shuffle(ranks, random);
    return ranks.stream().mapToInt(Integer::intValue).toArray();
  }

  private static CollectiveWork work(Operation operation, Algorithm algorithm, int count) {
    return new CollectiveWork(
        operation,
        algorithm,
        Protocol.SIMPLE,
        DataType.INT64,
        RedOp.SUM,
        operation.isRooted() ? ROOT : 0,
        count,
        CHANNELS,
        1 << 20);
  }

  private static Offheap arguments(KernelCommunicator of, CollectiveWork work) {
    return ((CudaKernelPlan) of.prepare(work)).arguments();
  }

  /** All ranks' kernels find their neighbours, and their places in the data. */
  @Test
  void schedulesOfMoreThan255RanksAreRight() throws Exception {
    List<CollectiveWork> works =
        List.of(
            work(Operation.ALL_REDUCE, Algorithm.RING, COUNT),
            work(Operation.ALL_REDUCE, Algorithm.TREE, COUNT),
            work(Operation.ALL_GATHER, Algorithm.RING, 20),
            work(Operation.REDUCE_SCATTER, Algorithm.RING, 20),
            work(Operation.BROADCAST, Algorithm.RING, 100),
            work(Operation.REDUCE, Algorithm.RING, 100));
    Random random = new Random(SEED);
    List<int[]> rings = List.of(ring(RANKS, random), ring(RANKS, random));
    ScheduleRanks.in(folder, device()).run(works, RANKS, rank -> spec(rank, RANKS, rings), SEED);
  }

  /** The last rank of as many as there can be: its number is below that of no rank. */
  @Test
  void tablesHoldTheHighestRank() {
    int last = MOST - 1;
    int[] ring = IntStream.range(0, MOST).map(i -> (i + 7) % MOST).toArray();
    try (KernelCommunicator one =
        device().createKernelCommunicator(spec(last, MOST, List.of(ring)))) {
      Offheap arguments = arguments(one, work(Operation.ALL_REDUCE, Algorithm.RING, COUNT));
      for (int channel = 0; channel < ConnectionLayout.CHANNELS; channel++) {
        int at = channel * KernelLayout.RANK_BYTES;
        assertEquals(last - 7, arguments.getShort(KernelLayout.RING_INDEX + at));
        assertEquals(last - 1, arguments.getShort(KernelLayout.RING_PREV + at));
        assertEquals(0, arguments.getShort(KernelLayout.RING_NEXT + at));
        boolean inChain = channel % 2 == 0;
        assertEquals(
            inChain ? KernelLayout.NONE : (last - 1) / 2,
            arguments.getShort(KernelLayout.TREE_UP + at));
        assertEquals(
            inChain ? last - 1 : KernelLayout.NONE,
            arguments.getShort(KernelLayout.TREE_DOWN + at));
      }
      ByteBuffer table = ScheduleRanks.table(arguments, ConnectionLayout.CHANNELS, MOST);
      int lastOfLast = (ConnectionLayout.CHANNELS * MOST - 1) * KernelLayout.RANK_BYTES;
      assertEquals(6, table.getShort(lastOfLast));
      assertEquals(last, table.getShort((last - 7) * KernelLayout.RANK_BYTES) & 0xffff);
    }
  }

  @Test
  void oneRankMoreIsRefused() {
    KernelCommunicatorSpec spec = spec(0, MOST + 1, List.of(IntStream.range(0, 2).toArray()));
    InvalidArgumentException error =
        assertThrows(InvalidArgumentException.class, () -> device().createKernelCommunicator(spec));
    assertEquals(ErrorId.RANK, error.id());
    assertTrue(error.getMessage().contains("use at most 65535 ranks"), error.getMessage());
  }
}
