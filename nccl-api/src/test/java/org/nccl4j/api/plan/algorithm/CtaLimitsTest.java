package org.nccl4j.api.plan.algorithm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.CostModel;
import org.nccl4j.api.plan.cost.TopologyCostModelTest;
import org.nccl4j.api.plan.cost.TunedTable;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.cluster.CommTopology;

/** The effect of limits of blocks on each kind of plan. */
class CtaLimitsTest {
  private static final int SENDRECV = 2;
  private static final int ALL_TO_ALL_OF_8 = 15;

  @Test
  void nothingIsLimitedWhereNothingIsSet() {
    CtaLimits limits = new CtaLimits(1, 64, 64);
    for (CtaLimits each : new CtaLimits[] {limits, CtaLimits.NONE}) {
      assertEquals(0, each.channels(SENDRECV));
      assertEquals(0, each.channels(ALL_TO_ALL_OF_8));
      assertEquals(0, each.mostOfDevice());
      assertEquals(0, each.limit(0));
    }
  }

  @Test
  void messagesAtATimeShareTheBlocks() {
    CtaLimits limits = new CtaLimits(1, 8, 64);
    assertEquals(4, limits.channels(SENDRECV));
    assertEquals(1, limits.channels(ALL_TO_ALL_OF_8), "none can do without a block");
    assertEquals(2, new CtaLimits(1, 32, 64).channels(ALL_TO_ALL_OF_8));
    assertEquals(8, limits.mostOfDevice());
  }

  @Test
  void channelsOfSendsAreOfEachMessage() {
    CtaLimits limits = new CtaLimits(1, 64, 4);
    assertEquals(4, limits.channels(SENDRECV));
    assertEquals(4, limits.channels(ALL_TO_ALL_OF_8));
    assertEquals(0, limits.mostOfDevice(), "no other operation is meant");
    assertEquals(2, new CtaLimits(1, 4, 3).channels(SENDRECV));
  }

  @Test
  void largeOperationsTakeFewBlocksWhereTheseWereMeasured() {
    CtaLimits limits = new CtaLimits(1, 64, 64);
    assertEquals(16, limits.limit(64, 16, false, 4 << 20));
    assertEquals(64, limits.limit(64, 16, false, (4 << 20) - 1), "small ones take the best");
    assertEquals(64, limits.limit(128, 0, false, 1 << 30), "nothing was measured");
    assertEquals(8, limits.limit(8, 16, false, 1 << 30), "the best are fewer");
    assertEquals(16, limits.mostOfDevice(16, false, 1 << 30));
    assertEquals(0, limits.mostOfDevice(0, false, 1 << 30));
  }

  @Test
  void sparingOperationsOfAllSizesTakeFewBlocks() {
    CtaLimits sparing = new CtaLimits(1, 64, 64, /* sparing= */ true);
    assertEquals(8, sparing.limit(64, 8, /* slots= */ false, 1));
    assertEquals(12, sparing.limit(64, 16, /* slots= */ false, 1));
    assertEquals(12, sparing.limit(64, 0, /* slots= */ false, 1));
    assertEquals(24, sparing.limit(64, 48, /* slots= */ true, 1));
    assertEquals(24, sparing.limit(64, 0, /* slots= */ true, 1));
    assertEquals(1, sparing.limit(1, 0, /* slots= */ false, 1));
    assertEquals(
        0, sparing.limit(0, 0, false, 1), "left to the device, which takes at most as many");
    assertEquals(12, sparing.mostOfDevice(0, /* slots= */ false, 1));
    assertEquals(12, sparing.channels(SENDRECV));
    assertEquals(24, sparing.mostOfLocal());
    assertEquals(4, new CtaLimits(1, 4, 64, /* sparing= */ true).mostOfLocal());
    assertEquals(0, new CtaLimits(1, 64, 64).mostOfLocal());
  }

  @Test
  void theUsersLimitsComeFirst() {
    assertEquals(4, new CtaLimits(1, 4, 64).limit(64, 16, false, 1 << 30));
    assertEquals(4, new CtaLimits(1, 4, 64).mostOfDevice(16, false, 1 << 30));
    assertEquals(48, new CtaLimits(48, 64, 64).limit(64, 16, false, 1 << 30));
    assertEquals(48, new CtaLimits(48, 64, 64).mostOfDevice(16, false, 1 << 30));
  }

  @Test
  void theNumberComesWithItsReason() {
    CtaLimits limits = new CtaLimits(1, 64, 64);
    assertEquals(
        "  blocks: 64 (for the least time)%n".formatted(), limits.explain(64, 0, false, 8));
    assertEquals(
        "  blocks: 16 (the fewest within 3 %% of the least time)%n".formatted(),
        limits.explain(64, 16, false, 4 << 20));
    assertEquals(
        "  blocks: chosen by the device (for the least time)%n".formatted(),
        limits.explain(0, 0, false, 8));
    assertEquals(
        ("  blocks: chosen by the device, at most 8 (for the least time, within NCCL_MIN_CTAS and"
                + " NCCL_MAX_CTAS)%n")
            .formatted(),
        new CtaLimits(1, 8, 64).explain(0, 0, false, 8));
    assertEquals(
        "  blocks: 24 (few, by NCCL_CTA_POLICY)%n".formatted(),
        new CtaLimits(1, 64, 64, /* sparing= */ true).explain(64, 48, true, 8));
  }

  /** The bound of a path slower than NVLink is not the reason where a setting allows fewer. */
  @Test
  void blocksThatFillAPathComeWithTheirReason() {
    String full = "  blocks: at most 10, which fill the path between two GPUs%n".formatted();
    CtaLimits limits = new CtaLimits(1, 64, 64);
    for (int best : new int[] {0, 64, 128}) {
      assertEquals(full, limits.explain(best, 0, false, 8, 10));
      assertEquals(limits.explain(best, 0, false, 8), limits.explain(best, 0, false, 8, 0));
      assertEquals(
          "  blocks: at most 16, within NCCL_MIN_CTAS and NCCL_MAX_CTAS%n".formatted(),
          new CtaLimits(16, 64, 64).explain(best, 0, false, 8, 10));
    }
    assertEquals(
        "  blocks: 4 (for the least time, within NCCL_MIN_CTAS and NCCL_MAX_CTAS)%n".formatted(),
        new CtaLimits(1, 4, 64).explain(64, 0, false, 8, 10));
    assertEquals(
        ("  blocks: chosen by the device, at most 4 (for the least time, within NCCL_MIN_CTAS and"
                + " NCCL_MAX_CTAS)%n")
            .formatted(),
        new CtaLimits(1, 4, 64).explain(0, 0, false, 8, 10));
    assertEquals(
        "  blocks: 12 (few, by NCCL_CTA_POLICY)%n".formatted(),
        new CtaLimits(1, 64, 64, /* sparing= */ true).explain(64, 0, false, 8, 16));
  }

  @Test
  void costsOfFewBlocksAvoidWhatNeedsMany() {
    CostModel base =
        new CommunicatorProfile(2, Device.Kind.CUDA, "NVIDIA H200", true, /* nvlink= */ true)
            .costs();
    assertSame(base, new CtaLimits(1, 64, 64).costs(base, 2));
    CostModel sparing = new CtaLimits(1, 64, 64, /* sparing= */ true).costs(base, 2);
    assertTrue(
        lines(base, 1 << 20) < oneShot(base, 1 << 20)
            && lines(sparing, 1 << 20) > oneShot(sparing, 1 << 20),
        "lines carry a third of the bytes");
    assertTrue(lines(sparing, 1 << 10) < oneShot(sparing, 1 << 10));
    long large = 256 << 20;
    assertTrue(
        sparing.microseconds(Operation.ALL_REDUCE, Algorithm.RING, Protocol.SIMPLE, large)
            > sparing.microseconds(
                Operation.ALL_REDUCE, Algorithm.DIRECT_TWO_SHOT, Protocol.SIMPLE, large),
        "rings need more channels");
  }

  /** An A10, L40S or RTX 3090: few blocks fill PCIe, so that LL's flags only double the bytes. */
  @ParameterizedTest
  @ValueSource(ints = {5, 8, 12})
  void fewBlocksCarryWhatSlowLinksTake(int blocks) {
    CommunicatorProfile facts =
        new CommunicatorProfile(8, Device.Kind.CUDA, "NVIDIA A10", true, /* nvlink= */ false)
            .with(Optional.of(TopologyCostModelTest.topology(1, 8, 86, /* nvLinks= */ 0)));
    CostModel base = facts.costs();
    assertTrue(base.bandwidth() < 30, base.bandwidth() + " GB/s");
    CostModel few = new CtaLimits(1, blocks, 64).costs(base, 8);
    long large = 64 << 20;
    for (Operation operation : Operation.collectives()) {
      assertEquals(
          base.microseconds(operation, Algorithm.RING, Protocol.SIMPLE, large),
          few.microseconds(operation, Algorithm.RING, Protocol.SIMPLE, large));
      assertEquals(
          Protocol.SIMPLE,
          new AlgorithmSelector(few, AlgorithmFilter.ALL)
              .choose(operation, large, DataType.FLOAT32, RedOp.SUM)
              .protocol(),
          operation.label());
    }
  }

  /** The network between hosts is slower than the links that need many channels. */
  @Test
  void fewBlocksCarryWhatNetworksTake() {
    for (CommTopology topology :
        new CommTopology[] {null, TopologyCostModelTest.topology(2, 8, 90, 18)}) {
      CommunicatorProfile facts = TopologyCostModelTest.ofTwoHosts(Optional.ofNullable(topology));
      CostModel base = facts.costs();
      CostModel few = new CtaLimits(1, 16, 64).costs(base, 16);
      for (Algorithm algorithm : base.overConnections(Operation.ALL_REDUCE)) {
        double time = few.microseconds(Operation.ALL_REDUCE, algorithm, Protocol.SIMPLE, 64 << 20);
        double least =
            base.microseconds(Operation.ALL_REDUCE, algorithm, Protocol.SIMPLE, 64 << 20);
        assertTrue(time >= least && time < 1.2 * least, algorithm + ": " + time + " us");
      }
    }
  }

  /** A probe runs by the blocks that operations have later. */
  @Test
  void timesThatWereMeasuredByFewBlocksStayAsTheyAre() {
    TunedTable table =
        TunedTable.parse(
            "times",
            List.of(
                "device NVIDIA X",
                "2 AllReduce Ring Simple 1048576:20 67108864:900",
                "2 AllReduce DirectTwoShot Simple 1048576:20 67108864:900",
                "2 AllReduce OneShot LL128 1024:5 8388608:30"));
    CommunicatorProfile facts =
        new CommunicatorProfile(2, Device.Kind.CUDA, "NVIDIA X", true, /* nvlink= */ true);
    CtaLimits limits = new CtaLimits(1, 8, 64);
    CostModel elsewhere = limits.costs(facts.with(table).costs(), 2);
    CostModel probed = limits.costs(facts.with(table.ofProbe()).costs(), 2);
    for (Algorithm algorithm : List.of(Algorithm.RING, Algorithm.DIRECT_TWO_SHOT)) {
      assertEquals(900, allReduce(probed, algorithm, Protocol.SIMPLE, 64 << 20), 1e-9);
      assertTrue(allReduce(elsewhere, algorithm, Protocol.SIMPLE, 64 << 20) > 950);
    }
    assertEquals(30, allReduce(probed, Algorithm.ONE_SHOT, Protocol.LL128, 8 << 20), 1e-9);
    assertTrue(allReduce(elsewhere, Algorithm.ONE_SHOT, Protocol.LL128, 8 << 20) > 300);
    assertTrue(
        allReduce(probed, Algorithm.TWO_SHOT, Protocol.SIMPLE, 64 << 20)
            > allReduce(facts.with(table).costs(), Algorithm.TWO_SHOT, Protocol.SIMPLE, 64 << 20),
        "others were not measured");
  }

  private static double allReduce(
      CostModel costs, Algorithm algorithm, Protocol protocol, long bytes) {
    return costs.microseconds(Operation.ALL_REDUCE, algorithm, protocol, bytes);
  }

  private static double lines(CostModel costs, long bytes) {
    return costs.microseconds(Operation.REDUCE_SCATTER, Algorithm.DIRECT_LL, Protocol.LL, bytes);
  }

  private static double oneShot(CostModel costs, long bytes) {
    return costs.microseconds(
        Operation.REDUCE_SCATTER, Algorithm.DIRECT_ONE_SHOT, Protocol.SIMPLE, bytes);
  }
}
