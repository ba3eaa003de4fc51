package org.nccl4j.api.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;
import org.nccl4j.api.FakeKernels;
import org.nccl4j.api.plan.algorithm.CommunicatorProfile;
import org.nccl4j.api.plan.algorithm.CtaLimits;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.device.Device;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Protocols of sends between two GPUs. */
class P2pPlannerTest {
  private static Protocol protocol(CtaLimits ctas, Operation operation, long bytes) {
    var costs = new CommunicatorProfile(2, Device.Kind.CUDA, "NVIDIA H200", true, true).costs(null);
    return new P2pPlanner(new FakeKernels(), 0, 2, costs, AlgorithmFilter.ALL, ctas)
        .choice(operation, bytes)
        .protocol();
  }

  @Test
  void fewBlocksSendLessInLines() {
    CtaLimits all = new CtaLimits(1, 64, 64);
    CtaLimits few = new CtaLimits(1, 24, 64);
    for (Operation operation : new Operation[] {Operation.SEND, Operation.ALL_TO_ALL}) {
      assertEquals(Protocol.LL128, protocol(all, operation, 8 << 20));
      assertEquals(Protocol.SIMPLE, protocol(few, operation, 8 << 20));
      assertEquals(Protocol.LL128, protocol(few, operation, 512 << 10), "12 channels of 48 KiB");
      assertEquals(Protocol.SIMPLE, protocol(few, operation, 640 << 10));
    }
  }

  @Test
  void sparingSendsHaveFewBlocks() {
    CtaLimits sparing = new CtaLimits(1, 64, 64, /* sparing= */ true);
    assertEquals(Protocol.SIMPLE, protocol(sparing, Operation.SEND, 8 << 20));
  }
}
