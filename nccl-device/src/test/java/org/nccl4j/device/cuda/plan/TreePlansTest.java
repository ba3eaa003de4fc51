package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.GpuRanks;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Plans of trees, against the recording driver. Of two trees, channels take one each in turn. */
class TreePlansTest extends AgainstFakeCuda {
  @BeforeEach
  void assumeKernels() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
  }

  /** A rank's parent in one of the trees, and its children behind it; -1 for none. */
  private static List<Integer> place(
      GpuRanks ranks, int rank, int tree, Operation operation, int root) {
    CollectiveWork work =
        new CollectiveWork(
            operation, Algorithm.TREE, Protocol.SIMPLE, DataType.FLOAT32, RedOp.SUM, root, 9, 3, 1);
    CudaKernelPlan plan = (CudaKernelPlan) ranks.communicators().get(rank).prepare(work);
    Offheap arguments = plan.arguments();
    List<Integer> place = new ArrayList<>();
    place.add(rank(arguments, KernelLayout.TREE_UP, tree));
    for (int child = 0; child < KernelLayout.TREE_CHILDREN; child++) {
      place.add(rank(arguments, KernelLayout.TREE_DOWN, child * ConnectionLayout.CHANNELS + tree));
    }
    return place;
  }

  private static int rank(Offheap arguments, int table, int entry) {
    int rank = arguments.bytes().getShort(table + KernelLayout.RANK_BYTES * entry) & 0xffff;
    return rank == KernelLayout.NONE ? -1 : rank;
  }

  /** Trees between machines have ranks with three or four children. */
  @Test
  void kernelsGetAllChildren() {
    try (GpuRanks ranks = new GpuRanks(9, Duration.ofSeconds(3))) {
      assertEquals(List.of(-1, 1, 2, 3, 4), place(ranks, 0, 2, Operation.ALL_REDUCE, 0));
      assertEquals(List.of(0, 5, 6, 7, 8), place(ranks, 1, 2, Operation.ALL_REDUCE, 0));
      assertEquals(List.of(0, 3, 4, -1, -1), place(ranks, 1, 1, Operation.ALL_REDUCE, 0));
    }
  }

  /** Rank 1 of a heap has parent 0 and children 3 and 4, and rank 6 lies behind its parent. */
  @Test
  void theNeighbourTowardsTheRootIsTheParent() {
    try (GpuRanks ranks = new GpuRanks(9, Duration.ofSeconds(3))) {
      for (Operation operation : List.of(Operation.BROADCAST, Operation.REDUCE)) {
        assertEquals(List.of(0, 3, 4, -1, -1), place(ranks, 1, 1, operation, 6));
        assertEquals(List.of(4, 3, 0, -1, -1), place(ranks, 1, 1, operation, 4));
        assertEquals(List.of(-1, 3, 4, 0, -1), place(ranks, 1, 1, operation, 1));
        assertEquals(List.of(2, -1, -1, -1, -1), place(ranks, 6, 1, operation, 3));
        // All five neighbours of the root are below it.
        assertEquals(List.of(0, 5, 6, 7, 8), place(ranks, 1, 2, operation, 1));
      }
    }
  }
}
