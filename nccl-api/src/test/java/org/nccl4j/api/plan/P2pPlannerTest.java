package org.nccl4j.api.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.Devices;
import org.nccl4j.api.FakeKernels;
import org.nccl4j.api.plan.algorithm.CtaLimits;
import org.nccl4j.api.plan.algorithm.Topologies;
import org.nccl4j.api.plan.algorithm.TunerHook;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.RankPlacement;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.KernelDevice.BlockRoom;
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

  /** GPUs of one machine without NVLink, such as A10, L40S, RTX 3090 and H100 PCIe. */
  private static CommunicatorProfile pcie(int nRanks) {
    return new CommunicatorProfile(nRanks, Device.Kind.CUDA, "NVIDIA A10", true, false)
        .with(Optional.of(Topologies.pcie(nRanks)));
  }

  private static MessageChoices choices(CommunicatorProfile ranks, long lineBytes) {
    Planner.Rules rules =
        new Planner.Rules(
            AlgorithmFilter.ALL,
            TunerHook.NONE,
            new CtaLimits(1, 64, 64),
            lineBytes,
            /* info= */ null);
    return new MessageChoices(ranks, ranks.costs(), rules, /* hasCopyEngines= */ false);
  }

  private static List<P2pWork> exchanged(CommunicatorProfile ranks, int rank, long bytes) {
    FakeKernels kernels = new FakeKernels();
    long shape = CallShape.of(Operation.ALL_TO_ALL, DataType.UINT8, RedOp.SUM, 0);
    new P2pPlanner(kernels, rank, choices(ranks, -1), null).plan(shape, bytes, Algorithm.PAIRWISE);
    return kernels.last().messages();
  }

  private static P2pWork message(List<P2pWork> works, P2pWork.Kind kind, int peer) {
    return works.stream()
        .filter(work -> work.kind() == kind && work.peer() == peer)
        .findAny()
        .orElseThrow();
  }

  @Test
  void messagesHaveTheChannelsThatFillSlowLinks() {
    for (int nRanks : new int[] {2, 4, 8}) {
      CommunicatorProfile ranks = pcie(nRanks);
      for (int rank = 0; rank < nRanks; rank++) {
        for (int peer = 0; peer < nRanks; peer++) {
          P2pWork send = message(exchanged(ranks, rank, 64 << 20), P2pWork.Kind.SEND, peer);
          P2pWork recv = message(exchanged(ranks, peer, 64 << 20), P2pWork.Kind.RECV, rank);
          assertEquals(send.mostChannels(), recv.mostChannels(), "both ends");
          // 48 GB/s within a NUMA node and 22 between both, by 5.2 GB/s each.
          int expected = 2 * rank / nRanks == 2 * peer / nRanks ? 10 : 5;
          assertEquals(rank == peer ? 0 : expected, send.mostChannels());
        }
      }
    }
  }

  @Test
  void messagesOverNvlinkHaveAllChannels() {
    for (int nRanks : new int[] {2, 4, 8}) {
      CommunicatorProfile formula =
          new CommunicatorProfile(nRanks, Device.Kind.CUDA, "NVIDIA H200", true, true);
      for (CommunicatorProfile ranks :
          List.of(formula, formula.with(Optional.of(Topologies.nvlink(nRanks))))) {
        exchanged(ranks, 0, 64 << 20).forEach(work -> assertEquals(0, work.mostChannels()));
      }
    }
  }

  private static long mostInLl(MessageChoices choices, Operation operation) {
    long bytes = 0;
    while (choices.protocol(operation, bytes + 256) == Protocol.LL) {
      bytes += 256;
    }
    return bytes;
  }

  /** Over PCIe a hand-over in Simple takes 3 us longer; LL sends every byte twice. */
  @Test
  void overSlowLinksFewerBytesGoInLl() {
    MessageChoices two = choices(pcie(2), -1);
    long send = mostInLl(two, Operation.SEND);
    assertTrue(send > 2.5 * 22e3 && send < 3 * 22e3, send + " bytes of a send");
    assertEquals(send, mostInLl(two, Operation.ALL_TO_ALL));
    MessageChoices eight = choices(pcie(8), -1);
    long part = mostInLl(eight, Operation.ALL_TO_ALL);
    assertTrue(part <= send / 7, part + " bytes of each part of an exchange");
    CommunicatorProfile unknown =
        new CommunicatorProfile(2, Device.Kind.CUDA, "NVIDIA A10", true, false);
    assertTrue(mostInLl(choices(unknown, -1), Operation.SEND) <= 3 * 12e3);
    CommunicatorProfile nvlink =
        new CommunicatorProfile(4, Device.Kind.CUDA, "NVIDIA H200", true, true);
    assertEquals(128 << 10, mostInLl(choices(nvlink, -1), Operation.SEND));
    assertEquals((384 << 10) / 3, mostInLl(choices(nvlink, -1), Operation.ALL_TO_ALL));
  }

  /** Two hosts; neighbours have all channels, other pairs so many. */
  private static CommunicatorProfile overNetwork(int pairChannels) {
    return new CommunicatorProfile(
        2,
        Device.Kind.CUDA,
        "NVIDIA H200",
        false,
        false,
        new RankPlacement(2, 1, /* carried= */ true, 32, /* lines= */ true)
            .withPairChannels(pairChannels),
        Optional.empty(),
        Optional.empty(),
        /* cores= */ 8,
        BlockRoom.UNLIMITED);
  }

  /** NCCL_P2P_LL_THRESHOLD is of each channel, of which connections over a network have few. */
  @Test
  void theUsersThresholdIsOfEachChannel() {
    CommunicatorProfile nvlink =
        new CommunicatorProfile(2, Device.Kind.CUDA, "NVIDIA H200", true, true);
    assertEquals(64 * 4096, mostInLl(choices(nvlink, 4096), Operation.SEND));
    assertEquals(0, mostInLl(choices(nvlink, 0), Operation.SEND));
    assertEquals(1024, mostInLl(choices(nvlink, 1024), Operation.SEND), "one channel up to 2 KiB");
    assertEquals(5 * 16384, mostInLl(choices(pcie(2), 16384), Operation.SEND));
    for (int channels : new int[] {2, 32}) {
      CommunicatorProfile apart = overNetwork(channels);
      assertEquals(channels * 4096, mostInLl(choices(apart, 4096), Operation.SEND));
      assertEquals(channels * 4096, mostInLl(choices(apart, 4096), Operation.ALL_TO_ALL));
    }
    String text = choices(pcie(2), 16384).explain(Operation.SEND);
    assertTrue(text.contains("16384 bytes of each channel (NCCL_P2P_LL_THRESHOLD)"), text);
  }
}
