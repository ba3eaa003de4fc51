package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.cuda.plan.KernelLayout;

/** Errors of what a kernel of an exchange refuses. The test acts as the kernel. */
class ExchangeFailureTest extends AgainstFakeCuda {
  private static void fails(ErrorId id, int kind, long step, String problem) {
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3))) {
      CudaKernelCommunicator communicator = ranks.communicators.get(1);
      ByteBuffer control = communicator.memory().control();
      control.putInt(KernelLayout.CONTROL_FAILED_KIND, kind);
      control.putInt(KernelLayout.CONTROL_FAILED_PEER, 0);
      control.putInt(KernelLayout.CONTROL_FAILED_CHANNEL, 1);
      control.putLong(KernelLayout.CONTROL_FAILED_STEP, step);
      control.putInt(KernelLayout.CONTROL_FAILED, 1);
      NcclException failure = communicator.failure();
      assertInstanceOf(InvalidArgumentException.class, failure);
      assertEquals(id, failure.id());
      assertTrue(failure.problem().contains(problem), failure.problem());
    }
  }

  @Test
  void aCountThatIsNotAllowedIsNamed() {
    fails(ErrorId.COUNT, 6, -5, "on rank 1: rank 0 has the count -5 for rank 1");
  }

  @Test
  void moreElementsThanABufferHasAreNamed() {
    fails(
        ErrorId.COUNT,
        7,
        1L << 40,
        "rank 0 sends 1099511627776 elements, more than its send buffer has");
  }

  @Test
  void moreElementsThanARankMayReceiveAreNamed() {
    fails(ErrorId.COUNT, 8, 20, "rank 0 would receive 20 elements, more than the exchange allows");
  }

  @Test
  void buffersOfExpertsWithTooFewRowsAreNamed() {
    fails(ErrorId.ARGUMENT, 5, 3L << 32 | 8, "the outputs have room for 3 rows, and row 8 was");
    fails(ErrorId.ARGUMENT, 9, 8L << 32 | 128, "for 8 rows, and the last dispatch had 128 tokens");
  }
}
