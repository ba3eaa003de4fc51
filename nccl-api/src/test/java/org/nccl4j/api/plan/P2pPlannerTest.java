package org.nccl4j.api.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.Devices;
import org.nccl4j.api.FakeKernels;
import org.nccl4j.api.plan.algorithm.CommunicatorProfile;
import org.nccl4j.api.plan.algorithm.CtaLimits;
import org.nccl4j.api.plan.algorithm.TunerHook;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Protocols of sends between two GPUs. */
class P2pPlannerTest {
  private static Planner.Rules rules(CtaLimits ctas) {
    return new Planner.Rules(AlgorithmFilter.ALL, TunerHook.NONE, ctas, /* info= */ null);
  }

  private static MessageChoices choices(int nRanks, CtaLimits ctas) {
    var ranks = new CommunicatorProfile(nRanks, Device.Kind.CUDA, "NVIDIA H200", true, true);
    return new MessageChoices(ranks, ranks.costs(), rules(ctas), /* hasCopyEngines= */ false);
  }

  private static Protocol protocol(CtaLimits ctas, Operation operation, long bytes) {
    return choices(2, ctas).choice(operation, bytes, DataType.UINT8).protocol();
  }

  @Test
  void fewBlocksSendLessInLines() {
    CtaLimits all = new CtaLimits(1, 64, 64);
    CtaLimits few = new CtaLimits(1, 24, 64);
    Map<Operation, Integer> channels = Map.of(Operation.SEND, 12, Operation.ALL_TO_ALL, 8);
    channels.forEach(
        (operation, number) -> {
          long most = number * (48L << 10);
          assertEquals(Protocol.LL128, protocol(all, operation, 8 << 20));
          assertEquals(Protocol.SIMPLE, protocol(few, operation, 8 << 20));
          assertNotEquals(Protocol.SIMPLE, protocol(few, operation, most), operation.toString());
          assertEquals(Protocol.SIMPLE, protocol(few, operation, most + 1), operation.toString());
        });
  }

  /** A block for each channel of its sends, its receives and the copy of a rank's own part. */
  @Test
  void anExchangeTakesAtMostTheLimitOfBlocks() {
    for (int nRanks : new int[] {1, 2, 3, 4, 8}) {
      FakeKernels kernels = new FakeKernels();
      CtaLimits limits = new CtaLimits(1, 24, 64);
      long shape = CallShape.of(Operation.ALL_TO_ALL, DataType.UINT8, RedOp.SUM, 0);
      new P2pPlanner(kernels, 0, choices(nRanks, limits), null)
          .plan(shape, 1 << 20, Algorithm.PAIRWISE);
      List<P2pWork> works = kernels.last().messages();
      int own = works.stream().filter(w -> w.peer() == 0).findAny().orElseThrow().mostChannels();
      int others = works.stream().filter(w -> w.peer() != 0).mapToInt(P2pWork::mostChannels).sum();
      assertTrue(own + others > 12 && own + others <= 24, nRanks + " ranks: " + works);
    }
  }

  private static List<P2pTask> exchange(int bytes) {
    return List.of(
        new P2pTask(true, 1, null, bytes, null), new P2pTask(false, 1, null, bytes, null));
  }

  /** A group's plan is found by the group's tasks or by equal ones, until it has been discarded. */
  @Test
  void groupsHaveTheirPlansUntilManyOthersHaveComeSince() {
    FakeKernels kernels = new FakeKernels();
    CtaLimits limits = new CtaLimits(1, 64, 64);
    P2pPlanner planner = new P2pPlanner(kernels, 0, choices(2, limits), null);
    List<P2pTask> first = exchange(8);
    FakeKernels.Plan made = (FakeKernels.Plan) planner.plan(first);
    assertSame(made, planner.plan(first));
    assertSame(made, planner.plan(exchange(8)));
    assertNotSame(made, planner.plan(first.subList(0, 1)));
    assertSame(made, planner.plan(first));
    for (int bytes = 9; bytes < 1000 && made.discards() == 0; bytes++) {
      planner.plan(exchange(bytes));
    }
    assertEquals(1, made.discards());
    FakeKernels.Plan again = (FakeKernels.Plan) planner.plan(first);
    assertNotSame(made, again);
    assertSame(again, planner.plan(first));
    assertEquals(0, again.discards());
  }

  private static List<P2pTask> exchange(DeviceMemory buffer) {
    return List.of(new P2pTask(true, 1, buffer, 8, null), new P2pTask(false, 1, buffer, 8, null));
  }

  /** A program may have a new buffer for each message, which nothing else would free. */
  @Test
  void plansKeepBuffersOfTheHostOnlyIfTheyComeAgain() {
    FakeKernels kernels = new FakeKernels();
    P2pPlanner planner = new P2pPlanner(kernels, 0, choices(2, new CtaLimits(1, 64, 64)), null);
    try (DeviceMemory often = Devices.host().allocate(8);
        DeviceMemory once = Devices.host().allocate(8)) {
      FakeKernels.Plan first = (FakeKernels.Plan) planner.plan(exchange(often));
      assertEquals(0, first.discards());
      FakeKernels.Plan single = (FakeKernels.Plan) planner.plan(exchange(once));
      assertEquals(1, first.discards(), "not kept after the next");
      FakeKernels.Plan second = (FakeKernels.Plan) planner.plan(exchange(often));
      assertNotSame(first, second);
      assertEquals(1, single.discards());
      for (int n = 0; n < 3; n++) {
        try (DeviceMemory other = Devices.host().allocate(8)) {
          planner.plan(exchange(other));
        }
        assertSame(second, planner.plan(exchange(often)));
      }
      assertEquals(0, second.discards());
    }
  }

  @Test
  void sparingSendsHaveFewBlocks() {
    CtaLimits sparing = new CtaLimits(1, 64, 64, /* sparing= */ true);
    assertEquals(Protocol.SIMPLE, protocol(sparing, Operation.SEND, 8 << 20));
  }
}
