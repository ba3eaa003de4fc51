package org.nccl4j.device.cuda.window;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.DirectRanks;
import org.nccl4j.device.cuda.GpuRanks;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.plan.KernelLayout;
import org.nccl4j.device.cuda.plan.LayoutTest;
import org.nccl4j.device.kernel.RaggedKernels;

/** Plans of ragged exchanges against the recording driver, and their arguments and the header. */
class RaggedPlansTest extends AgainstFakeCuda {
  private static final RaggedKernels.Sizes SIZES =
      new RaggedKernels.Sizes(2, 12, 1000, 1500, /* wide= */ true);

  @Test
  void argumentsLieWhereTheHeaderSays() throws Exception {
    LayoutTest.compare(RaggedArguments.class, "ragged_layout.h", "nccl4jRaggedArguments");
    assertEquals(
        Integer.toString(RaggedPlans.RANKS),
        LayoutTest.run("ragged_layout.h", "printf(\"%d\", NCCL4J_RAGGED_RANKS);"));
  }

  @Test
  void aCallGetsItsArguments() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3));
        DirectRanks windows = new DirectRanks(ranks, 1 << 16);
        DeviceMemory memory = ranks.devices.get(1).allocate(1 << 12)) {
      var communicator = ranks.communicators().get(1);
      RaggedKernels kernels = communicator.raggedKernels().orElseThrow();
      assertEquals(1, kernels.mostBlocks(SIZES), "18000 bytes");
      assertEquals(128 + 2 * 8 * 32, kernels.controlBytes(SIZES, 2));
      assertEquals(16, kernels.ownBytes(SIZES, 2));
      DeviceMemory offsets = memory.slice(64, 64);
      RaggedKernels.Plan plans =
          kernels.prepare(
              SIZES,
              2,
              new RaggedKernels.Memory(
                  windows.sends.get(1), -4096, memory.slice(128, 16), memory, offsets));
      DeviceMemory counts = memory.slice(256, 16);
      CudaKernelPlan plan = (CudaKernelPlan) plans.allGather(counts, 70);
      assertEquals(1, plan.arguments().getInt(RaggedArguments.GATHERS));
      plan = (CudaKernelPlan) plans.allToAll(counts, 77);
      DeviceMemory send = memory.slice(513, 924);
      communicator.launch(plan, send, null, ranks.streams.get(1));
      assertTrue(fake.fakeRecord().contains("cuLaunchKernelEx(2,1,1,512,1,1,0,"));
      Offheap arguments = new Offheap(RaggedArguments.SIZE);
      fake.fakeAllArguments(arguments.address(), RaggedArguments.SIZE);
      assertEquals(send.address(), arguments.getLong(KernelLayout.SEND));
      assertEquals(counts.address(), arguments.getLong(RaggedArguments.COUNTS));
      assertEquals(77, arguments.getLong(RaggedArguments.SEND_ELEMENTS));
      assertEquals(0, arguments.getInt(RaggedArguments.GATHERS));
      assertEquals(1, arguments.getInt(RaggedArguments.WIDE));
      assertEquals(12, arguments.getInt(RaggedArguments.ELEMENT_BYTES));
      assertEquals(-4096, arguments.getLong(RaggedArguments.RECEIVED));
      assertEquals(1500, arguments.getLong(RaggedArguments.MAX_RECEIVED));
      assertEquals(offsets.address(), arguments.getLong(RaggedArguments.RECEIVED_OFFSETS));
      long first = windows.sends.get(1).peers().get(0).address();
      assertEquals(first, arguments.getLong(RaggedArguments.WINDOW));
      assertEquals(
          windows.sends.get(1).peers().get(1).address(),
          first + arguments.getLong(RaggedArguments.STRIDE));
      plans.discard();
    }
  }

  @Test
  void ranksBeyondTheKernelsHaveNone() {
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3))) {
      RaggedKernels kernels = ranks.communicators().get(0).raggedKernels().orElseThrow();
      RaggedKernels.Sizes many = new RaggedKernels.Sizes(33, 4, 10, 330, false);
      assertEquals(0, kernels.mostBlocks(many));
    }
  }
}
