package org.nccl4j.device.cuda.window;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.DirectRanks;
import org.nccl4j.device.cuda.GpuRanks;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.plan.KernelLayout;
import org.nccl4j.device.cuda.plan.LayoutTest;
import org.nccl4j.device.kernel.ExpertKernels;
import org.nccl4j.device.kernel.ExpertSizes;

/** Plans for experts against the recording driver, and their arguments against the header. */
class ExpertPlansTest extends AgainstFakeCuda {
  private static final ExpertSizes SIZES =
      new ExpertSizes(2, 10, 256, 3, 8, DataType.BFLOAT16, true);

  @Test
  void argumentsLieWhereTheHeaderSays() throws Exception {
    LayoutTest.compare(ExpertArguments.class, "expert_layout.h", "nccl4jExpertArguments");
    LayoutTest.compare(
        ExpertPackArguments.class, "expert_pack_layout.h", "nccl4jExpertPackArguments");
    String limits =
        "printf(\"%d %d %d %d %d %d\", NCCL4J_EXPERT_RANKS, NCCL4J_EXPERT_LOCAL,"
            + " NCCL4J_EXPERT_CELLS, NCCL4J_EXPERT_ENTRIES, NCCL4J_EXPERT_GROUP,"
            + " (int)sizeof(nccl4jExpertState));";
    assertEquals(
        "%d %d %d %d %d %d"
            .formatted(
                ExpertLayout.RANKS,
                ExpertLayout.LOCAL,
                ExpertLayout.EXPERTS,
                ExpertLayout.ENTRIES,
                ExpertSizes.SCALED,
                ExpertLayout.STATE_BYTES),
        LayoutTest.run("expert_layout.h", limits));
  }

  @Test
  void partsOfTheMemoryFollowEachOther() {
    ExpertLayout layout = new ExpertLayout(SIZES, 4);
    assertEquals(8 * 32 * 4, layout.combineFlags - layout.dispatchFlags);
    assertEquals(3 * 128, layout.stagedRow, "lines of 112 elements");
    assertEquals(3, layout.blockTokens);
    assertEquals(128, layout.messageBytes, "lines: 1, 1 with 4 counts, 3 * 2 with places");
    assertEquals(2 * 2 * 4 * layout.messageBytes, layout.tokens - layout.messages);
    assertEquals(2 * 2 * 10 * layout.stagedRow, layout.outputs - layout.tokens, 127);
    assertEquals(30 * 512, layout.windowBytes - layout.outputs);
    assertEquals(2 * 3 * 3, layout.listCapacity);
    ExpertSizes many = new ExpertSizes(2, 1 << 14, 256, 4, 8, DataType.BFLOAT16, true);
    assertEquals(2, new ExpertLayout(many, 4).countsOfLine, "of 32 bits");
  }

  /** 512 bytes from each of 10 blocks, at 320 bytes in a cycle of the driver's clock of 1 GHz. */
  @Test
  void moreThanTwoRanksSendAsFastAsTheLinksTake() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    assertEquals(0, pace(2, 320));
    assertEquals(16, pace(3, 320));
    assertEquals(0, pace(3, 0), "links of an unknown speed");
  }

  private static int pace(int n, double bandwidth) {
    ExpertSizes sizes = new ExpertSizes(n, 10, 256, 3, 8 / n * n, DataType.BFLOAT16, true);
    try (GpuRanks ranks = new GpuRanks(n, Duration.ofSeconds(3));
        DirectRanks windows = new DirectRanks(ranks, 1 << 20);
        DeviceMemory own = ranks.devices.get(0).allocate(1 << 16)) {
      ExpertKernels.Plans plans =
          ranks
              .communicators()
              .get(0)
              .expertKernels()
              .orElseThrow()
              .prepare(
                  sizes,
                  new ExpertKernels.Form(10, true, bandwidth),
                  new ExpertKernels.Memory(windows.sends.get(0), own, own, own, own, own));
      CudaKernelPlan plan = (CudaKernelPlan) plans.dispatch(own, own, 7, /* whole= */ true);
      int pace = plan.arguments().getInt(ExpertArguments.PACE);
      plans.discard();
      return pace;
    }
  }

  @Test
  void aDispatchGetsItsCallsArguments() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3));
        DirectRanks windows = new DirectRanks(ranks, 1 << 20);
        DeviceMemory own = ranks.devices.get(1).allocate(1 << 16);
        DeviceMemory other = ranks.devices.get(1).allocate(1 << 16)) {
      var communicator = ranks.communicators().get(1);
      ExpertKernels kernels = communicator.expertKernels().orElseThrow();
      assertEquals(10, kernels.mostBlocks(SIZES), "not more than tokens");
      assertTrue(kernels.windowBytes(SIZES, 10) <= 1 << 20);
      assertTrue(kernels.ownBytes(SIZES, 10) <= 1 << 16);
      ExpertKernels.Plans plans =
          kernels.prepare(
              SIZES,
              new ExpertKernels.Form(10, true, 320),
              new ExpertKernels.Memory(
                  windows.sends.get(1), own, other, other, other.slice(64, 64), other));
      DeviceMemory tokens = other.slice(512, 4096);
      DeviceMemory experts = other.slice(128, 128);
      CudaKernelPlan plan = (CudaKernelPlan) plans.dispatch(experts, other, 7, /* whole= */ false);
      assertEquals(7, plan.arguments().getInt(ExpertArguments.TOKEN_COUNT));
      assertEquals(1, plan.arguments().getInt(ExpertArguments.WHOLE_LINES));
      communicator.launch(plan, tokens, null, ranks.streams.get(1));
      assertTrue(fake.fakeRecord().contains("cuLaunchKernelEx(10,1,1,512,1,1,0,"));
      Offheap arguments = new Offheap(ExpertArguments.SIZE);
      fake.fakeArguments(arguments.address());
      assertEquals(tokens.address(), arguments.getLong(KernelLayout.SEND));
      assertEquals(experts.address(), arguments.getLong(ExpertArguments.EXPERTS));
      long first = windows.sends.get(1).peers().get(0).address();
      assertEquals(first, arguments.getLong(ExpertArguments.WINDOW));
      assertEquals(
          windows.sends.get(1).peers().get(1).address(),
          first + arguments.getLong(ExpertArguments.STRIDE));
      assertEquals(1, plan.arguments().getInt(ExpertArguments.PARTS));
      assertSame(plan, plans.receiveDispatch());
      assertEquals(2, plan.arguments().getInt(ExpertArguments.PARTS));
      plan = (CudaKernelPlan) plans.combine(9, 7, /* whole= */ true);
      assertEquals(3, plan.arguments().getInt(ExpertArguments.PARTS));
      assertEquals(9, plan.arguments().getLong(ExpertArguments.SENT_ROWS));
      assertEquals(7, plan.arguments().getInt(ExpertArguments.RESULT_ROWS));
      assertSame(plan, plans.receiveCombine(1L << 40));
      assertEquals(10, plan.arguments().getInt(ExpertArguments.RESULT_ROWS), "most tokens");
      plans.discard();
    }
  }

  @Test
  void stepsGetTheirListsAndTheSizesOfTheirRows() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    try (GpuRanks ranks = new GpuRanks(1, Duration.ofSeconds(3));
        DeviceMemory memory = ranks.devices.get(0).allocate(1 << 16)) {
      var communicator = ranks.communicators().get(0);
      ExpertKernels.Steps steps = communicator.expertSteps(SIZES, /* mostBlocks= */ 0);
      DeviceMemory list = memory.slice(256, 256);
      CudaKernelPlan plan = (CudaKernelPlan) steps.pack(list, memory, 5);
      assertEquals(512, plan.arguments().getLong(ExpertPackArguments.FROM));
      assertEquals(256 + 16, plan.arguments().getLong(ExpertPackArguments.TO));
      assertEquals(256, plan.arguments().getInt(ExpertPackArguments.ROW_BYTES));
      assertEquals(2, plan.arguments().getInt(ExpertPackArguments.GROUPS));
      plan = (CudaKernelPlan) steps.gather(list, 6);
      assertEquals(0, plan.arguments().getLong(ExpertPackArguments.ITEMS));
      assertEquals(512, plan.arguments().getLong(ExpertPackArguments.TO));
      plan = (CudaKernelPlan) steps.add(list, memory, 7);
      assertEquals(memory.address(), plan.arguments().getLong(ExpertPackArguments.WEIGHTS));
      assertEquals(3, plan.arguments().getInt(ExpertPackArguments.TOP_K));
      plan = (CudaKernelPlan) steps.place(list, memory, 8);
      assertEquals(memory.address(), plan.arguments().getLong(ExpertPackArguments.SCALES));
      assertEquals(8, plan.arguments().getLong(ExpertPackArguments.COUNT));
      communicator.launch(plan, memory, memory, ranks.streams.get(0));
      Offheap arguments = new Offheap(ExpertPackArguments.SIZE);
      fake.fakeArguments(arguments.address());
      assertEquals(list.address(), arguments.getLong(ExpertPackArguments.ITEMS));
      assertEquals(memory.address(), arguments.getLong(KernelLayout.RECV));
      steps.discard();
    }
  }

  @Test
  void sizesBeyondTheKernelsHaveNone() {
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3))) {
      ExpertKernels kernels = ranks.communicators().get(0).expertKernels().orElseThrow();
      for (ExpertSizes many :
          List.of(
              new ExpertSizes(2, 10, 256, 3, 2 * 513, DataType.BFLOAT16, true),
              new ExpertSizes(32, 10, 256, 3, 32 * 257, DataType.BFLOAT16, true),
              new ExpertSizes(2, 1 << 21, 128, 4, 2, DataType.BFLOAT16, true))) {
        assertEquals(0, kernels.mostBlocks(many), many.toString());
      }
    }
  }
}
