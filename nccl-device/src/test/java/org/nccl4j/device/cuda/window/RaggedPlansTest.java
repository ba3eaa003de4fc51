package org.nccl4j.device.cuda.window;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.CudaFunctor;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.DirectRanks;
import org.nccl4j.device.cuda.GpuRanks;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.plan.KernelLayout;
import org.nccl4j.device.cuda.plan.LayoutTest;
import org.nccl4j.device.kernel.ExpertKernels.Form;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.RaggedKernels;

/** Plans of ragged exchanges against the recording driver, and their arguments and the header. */
class RaggedPlansTest extends AgainstFakeCuda {
  private static final RaggedKernels.Sizes SIZES =
      new RaggedKernels.Sizes(2, 12, 1000, 1500, /* wide= */ true);

  @Test
  void argumentsLieWhereTheHeaderSays() throws Exception {
    LayoutTest.compare(RaggedArguments.class, "ragged_layout.h", "nccl4jRaggedArguments");
    LayoutTest.compare(RaggedSumArguments.class, "ragged_layout.h", "nccl4jRaggedSumArguments");
    assertEquals(
        Integer.toString(RaggedLayout.RANKS),
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
      assertEquals(4, kernels.mostBlocks(SIZES), "18000 bytes");
      Form form = new Form(2, /* wholeLines= */ true, 0);
      assertEquals(
          256 + 2 * 8 * 32 + 2 * 2 * 2 * 12000, kernels.controlBytes(SIZES, form), "12000 bytes");
      assertEquals(256 + 2 * 8 * 32, kernels.controlBytes(SIZES, new Form(2, false, 0)));
      assertEquals(16, kernels.ownBytes(SIZES, form));
      DeviceMemory offsets = memory.slice(64, 64);
      RaggedKernels.Plan plans =
          kernels.prepare(
              SIZES,
              form,
              new RaggedKernels.Memory(
                  windows.sends.get(1),
                  -4096,
                  memory.slice(1024, 3072),
                  memory.slice(128, 16),
                  memory.slice(32, 16),
                  offsets));
      DeviceMemory counts = memory.slice(256, 16);
      CudaKernelPlan plan = (CudaKernelPlan) plans.allGather(counts, 70);
      assertEquals(1, plan.arguments().getInt(RaggedArguments.GATHERS));
      assertEquals(0, plan.arguments().getInt(RaggedArguments.COMBINES));
      plan = (CudaKernelPlan) plans.scatter(counts, 70, 0x4321);
      assertEquals(0, plan.arguments().getInt(RaggedArguments.GATHERS));
      assertEquals(1, plan.arguments().getInt(RaggedArguments.COMBINES));
      assertEquals(0x4321, plan.arguments().getInt(RaggedArguments.SIGNATURE));
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
      assertEquals(0, arguments.getInt(RaggedArguments.COMBINES));
      assertEquals(1, arguments.getInt(RaggedArguments.WIDE));
      assertEquals(12, arguments.getInt(RaggedArguments.ELEMENT_BYTES));
      assertEquals(-4096, arguments.getLong(RaggedArguments.RECEIVED));
      assertEquals(1500, arguments.getLong(RaggedArguments.MAX_RECEIVED));
      assertEquals(12000, arguments.getLong(RaggedArguments.LINE_BYTES));
      assertEquals(256 + 2 * 8 * 32, arguments.getLong(RaggedArguments.LINES));
      assertEquals(offsets.address(), arguments.getLong(RaggedArguments.RECEIVED_OFFSETS));
      long first = windows.sends.get(1).peers().get(0).address();
      assertEquals(first, arguments.getLong(RaggedArguments.WINDOW));
      assertEquals(
          windows.sends.get(1).peers().get(1).address(),
          first + arguments.getLong(RaggedArguments.STRIDE));
      assertTrue(keepsCounts(plans, memory.slice(16, 16)), "in front of the received counts");
      assertFalse(keepsCounts(plans, memory.slice(24, 16)));
      assertFalse(keepsCounts(plans, memory.slice(40, 16)));
      assertTrue(keepsCounts(plans, memory.slice(48, 16)), "in front of the offsets");
      assertFalse(keepsCounts(plans, memory.slice(72, 16)));
      assertFalse(keepsCounts(plans, memory.slice(2048, 16)), "among the received elements");
      plans.discard();
    }
  }

  /** Of a type, and of a user's function: both read the number of elements from device memory. */
  @Test
  void copiesAreCombinedByCountsInMemory() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3));
        DirectRanks windows = new DirectRanks(ranks, 1 << 16);
        DeviceMemory memory = ranks.devices.get(1).allocate(1 << 15)) {
      var communicator = ranks.communicators().get(1);
      RaggedKernels kernels = communicator.raggedKernels().orElseThrow();
      DeviceMemory received = memory.slice(1024, 18000);
      DeviceMemory counts = memory.slice(32, 16);
      RaggedKernels.Memory all =
          new RaggedKernels.Memory(
              windows.sends.get(1), 0, received, memory, counts, memory.slice(64, 24));
      var sum = new RaggedKernels.Combination(DataType.FLOAT32, RedOp.MAX, null, 0);
      KernelPlan plan = kernels.prepare(SIZES, all, sum);
      communicator.launch(plan, received, received, ranks.streams.get(1));
      assertTrue(fake.fakeRecord().contains("cuLaunchKernelEx(3,1,1,256,"), fake.fakeRecord());
      Offheap arguments = new Offheap(RaggedSumArguments.SIZE);
      fake.fakeAllArguments(arguments.address(), RaggedSumArguments.SIZE);
      assertEquals(received.address(), arguments.getLong(KernelLayout.SEND));
      assertEquals(received.address(), arguments.getLong(KernelLayout.RECV));
      assertEquals(counts.address(), arguments.getLong(RaggedSumArguments.COUNTED));
      assertEquals(1, arguments.getInt(RaggedSumArguments.WIDE));
      assertEquals(3, arguments.getInt(RaggedSumArguments.VALUES), "12 bytes of an element");
      assertEquals(2, arguments.getInt(RaggedSumArguments.COPIES));
      assertEquals(RedOp.MAX.ordinal(), arguments.getInt(RaggedSumArguments.OP));
      var few = new RaggedKernels.Combination(DataType.FLOAT32, RedOp.MAX, null, 2);
      assertEquals(2, kernels.prepare(SIZES, all, few).blocks());
      ReductionOperator structs =
          ReductionOperator.functionOfStructs("sixes", 6)
              .onCuda(CudaFunctor.ofImage("Sixes", new byte[] {1}))
              .build();
      var own = new RaggedKernels.Combination(DataType.UINT8, null, structs, 0);
      fake.fakeReset();
      plan = kernels.prepare(SIZES, all, own);
      communicator.launch(plan, received, received, ranks.streams.get(1));
      assertTrue(fake.fakeRecord().contains("cuLaunchKernelEx("), fake.fakeRecord());
    }
  }

  /** True if a call does not write into the counts. */
  private static boolean keepsCounts(RaggedKernels.Plan plans, DeviceMemory counts) {
    CudaKernelPlan plan = (CudaKernelPlan) plans.allToAll(counts, 1);
    return plan.arguments().getInt(RaggedArguments.KEEPS_COUNTS) == 1;
  }

  @Test
  void linesHaveRoomForFewElements() {
    Form lines = new Form(1, /* wholeLines= */ true, 0);
    assertEquals(24, lineBytes(sizes(2, 7, 3), lines));
    assertEquals(256 << 10, lineBytes(sizes(2, 1, 1 << 20), lines));
    assertEquals(32 << 10, lineBytes(sizes(8, 1, 1 << 20), lines));
    assertEquals(0, lineBytes(sizes(8, (32 << 10) + 1, 4), lines), "one is too large");
    assertEquals(0, lineBytes(sizes(1, 4, 100), lines), "one rank");
    assertEquals(0, lineBytes(sizes(2, 4, 100), new Form(1, false, 0)));
  }

  private static long lineBytes(RaggedKernels.Sizes sizes, Form form) {
    return RaggedLayout.of(sizes, form).lineBytes();
  }

  private static RaggedKernels.Sizes sizes(int nRanks, int elementBytes, long maxCount) {
    return new RaggedKernels.Sizes(nRanks, elementBytes, maxCount, nRanks * maxCount, true);
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
