package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.InvalidArgumentException;
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

/** Plans of parallel aggregated trees, against the recording driver. */
class PatPlansTest extends AgainstFakeCuda {
  @BeforeEach
  void assumeKernels() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
  }

  private static CollectiveWork work(Operation operation, Protocol protocol, int chunkBytes) {
    return new CollectiveWork(
        operation, Algorithm.PAT, protocol, DataType.FLOAT32, RedOp.SUM, 0, 1000, 2, chunkBytes);
  }

  private static void refused(GpuRanks ranks, CollectiveWork work, String problem, String remedy) {
    String message =
        assertThrows(
                InvalidArgumentException.class, () -> ranks.communicators().get(0).prepare(work))
            .getMessage();
    assertTrue(message.contains(problem), message);
    assertTrue(message.contains(remedy), message);
  }

  /** A slot has room for 16 bytes of each tree, however few bytes a step should have. */
  @ParameterizedTest
  @CsvSource({
    "2, 128, 128",
    "3, 65536, 32768",
    "20, 128, 256",
    "20, 1024, 1024",
    "64, 1, 512",
    "70, 1, 640"
  })
  void aStepHasRoomForAllTrees(int n, int chunk, int slice) {
    try (GpuRanks ranks = new GpuRanks(n, Duration.ofSeconds(3))) {
      for (Operation operation : new Operation[] {Operation.ALL_GATHER, Operation.REDUCE_SCATTER}) {
        CollectiveWork work = work(operation, Protocol.SIMPLE, chunk);
        CudaKernelPlan plan = (CudaKernelPlan) ranks.communicators().get(n - 1).prepare(work);
        Offheap arguments = plan.arguments();
        assertEquals(Algorithm.PAT.ordinal(), arguments.getInt(KernelLayout.ALGORITHM));
        assertEquals(slice, arguments.getInt(KernelLayout.SLICE_BYTES));
        assertEquals(2, arguments.getInt(KernelLayout.N_CHANNELS));
        assertEquals(4000, arguments.getLong(KernelLayout.BYTES));
      }
    }
  }

  @Test
  void whatKernelsDoNotHaveIsRefused() {
    try (GpuRanks ranks = new GpuRanks(3, Duration.ofSeconds(3))) {
      refused(
          ranks, work(Operation.ALL_GATHER, Protocol.LL, 1024), "PAT has no protocol LL", "Simple");
      refused(ranks, work(Operation.ALL_REDUCE, Protocol.SIMPLE, 1024), "AllReduce has no", "Ring");
    }
    ConnectionLayout small = new ConnectionLayout(64 * 512, 64 * 512, 64 * 128, 0);
    try (GpuRanks ranks = new GpuRanks(18, Duration.ofSeconds(3), small)) {
      CollectiveWork work = work(Operation.ALL_GATHER, Protocol.SIMPLE, 1024);
      refused(ranks, work, "PAT among 18 ranks with slots of 128 bytes", "use Ring");
    }
  }
}
