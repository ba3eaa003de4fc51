package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.DataType;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.device.kernel.LaunchOptions;
import org.nccl4j.device.kernel.PeerConnector;
import org.nccl4j.device.kernel.Progress;
import org.nccl4j.device.os.AllowedCores;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Plans of hierarchical collectives, and the kernels' schedule with them. */
@Timeout(600)
class HierarchicalPlansTest extends AgainstFakeCuda {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);

  @TempDir static Path folder;

  @BeforeEach
  void assumeKernels() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
  }

  private static CudaDevice device() {
    return CudaDevices.probe().list().get(0);
  }

  private static KernelCommunicatorSpec spec(int rank, List<List<Integer>> hosts) {
    int n = hosts.stream().mapToInt(List::size).sum();
    List<Connection> none = Collections.nCopies(n, null);
    return new KernelCommunicatorSpec(
        "test",
        rank,
        n,
        device().connectionLayout(8),
        none,
        none,
        List.of(IntStream.range(0, n).toArray()),
        List.of(),
        hosts,
        /* carried= */ false,
        AllowedCores.ofThisThread(1),
        Progress.NONE,
        Duration.ofSeconds(3),
        /* nvls= */ null,
        LaunchOptions.PLAIN,
        PeerConnector.NONE,
        SingleCopy.OFF);
  }

  /** Hosts whose ranks are drawn. */
  private static List<List<Integer>> hosts(int hosts, int locals, Random random) {
    List<Integer> ranks = new ArrayList<>(IntStream.range(0, hosts * locals).boxed().toList());
    Collections.shuffle(ranks, random);
    return IntStream.range(0, hosts)
        .mapToObj(host -> ranks.subList(host * locals, (host + 1) * locals))
        .toList();
  }

  private static CollectiveWork work(Operation operation, int count, int channels, int chunk) {
    return new CollectiveWork(
        operation,
        Algorithm.HIERARCHICAL,
        Protocol.SIMPLE,
        DataType.INT64,
        RedOp.SUM,
        0,
        count,
        channels,
        chunk);
  }

  /** Right results on any hosts, in any order of steps, whatever the sizes. */
  @Test
  void schedulesAreRight() throws Exception {
    Random random = new Random(SEED);
    ScheduleRanks schedules = ScheduleRanks.in(folder, device());
    int[][] grids = {{2, 2}, {2, 3}, {3, 2}, {2, 8}, {8, 2}, {4, 5}, {7, 3}, {4, 8}, {3, 100}};
    for (int[] grid : grids) {
      int n = grid[0] * grid[1];
      List<List<Integer>> hosts = hosts(grid[0], grid[1], random);
      List<CollectiveWork> works = new ArrayList<>();
      for (Operation operation :
          List.of(Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.REDUCE_SCATTER)) {
        int most = n > 50 ? 100 : 2000;
        works.add(work(operation, 1, 1, 1 << 20));
        works.add(work(operation, 1 + random.nextInt(most), 1 + random.nextInt(4), 128));
        works.add(work(operation, 1 + random.nextInt(most), 3, 128 << random.nextInt(6)));
      }
      schedules.run(works, n, rank -> spec(rank, hosts), SEED);
    }
  }

  @Test
  void neighboursAreOnTheHostAndOnTheRail() {
    List<List<Integer>> hosts = List.of(List.of(0, 3, 4), List.of(1, 2, 5));
    try (KernelCommunicator one = device().createKernelCommunicator(spec(4, hosts))) {
      CollectiveWork work = work(Operation.ALL_REDUCE, 1000, 2, 1 << 20);
      Offheap arguments = ((CudaKernelPlan) one.prepare(work)).arguments();
      assertEquals(Algorithm.HIERARCHICAL.ordinal(), arguments.getInt(KernelLayout.ALGORITHM));
      assertEquals(3, arguments.getInt(KernelLayout.HOST_RANKS));
      int second = KernelLayout.RANK_BYTES;
      assertEquals(2, arguments.getShort(KernelLayout.RING_INDEX + second));
      assertEquals(3, arguments.getShort(KernelLayout.RING_PREV + second));
      assertEquals(0, arguments.getShort(KernelLayout.RING_NEXT + second));
      assertEquals(5, arguments.getShort(KernelLayout.TREE_UP + second));
      assertEquals(5, arguments.getShort(KernelLayout.TREE_DOWN + second));
    }
  }

  @Test
  void otherHostsAreRefused() {
    for (List<List<Integer>> hosts :
        List.of(
            List.of(List.of(0, 1, 2, 3)),
            List.of(List.of(0), List.of(1)),
            List.of(List.of(0, 1), List.of(2)))) {
      try (KernelCommunicator one = device().createKernelCommunicator(spec(0, hosts))) {
        CollectiveWork work = work(Operation.ALL_GATHER, 100, 1, 1 << 20);
        String message =
            assertThrows(InvalidArgumentException.class, () -> one.prepare(work)).getMessage();
        assertTrue(message.contains("several hosts with as many ranks each"), message);
        assertTrue(message.contains("use Ring or Tree"), message);
      }
    }
  }
}
