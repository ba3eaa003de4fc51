package org.nccl4j.api.plan.cost;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.nccl4j.api.plan.algorithm.ChosenTimes;
import org.nccl4j.device.Device;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.cluster.CommTopology;

/** Costs between windows of GPUs that were never measured. */
class UnmeasuredWindowCostsTest {
  private static final String H200 = "NVIDIA H200";
  private static final List<Operation> MEASURED =
      List.of(Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.REDUCE_SCATTER);

  private static CostModel measured(int nRanks) {
    return ChosenTimes.profile(H200, nRanks).costs();
  }

  private static CostModel unmeasured(int nRanks, boolean nvlink, CommTopology topology) {
    return new CommunicatorProfile(nRanks, Device.Kind.CUDA, "NVIDIA X", true, nvlink)
        .with(Optional.ofNullable(topology))
        .costs();
  }

  /** The costs over connections that a GPU without a table of its own may have. */
  private static Stream<Arguments> bases() {
    List<Arguments> all = new ArrayList<>();
    for (int nRanks : new int[] {2, 4, 8}) {
      GpuCostModel formula = new GpuCostModel(nRanks, /* reach= */ true, /* nvlink= */ true);
      CommTopology topology = TopologyCostModelTest.topology(1, nRanks, 90, 18);
      all.add(Arguments.of(nRanks, "formula", formula));
      all.add(Arguments.of(nRanks, "topology", new TopologyCostModel(topology, formula)));
      MeasuredCosts.find(H200, nRanks)
          .ifPresent(table -> all.add(Arguments.of(nRanks, "measured", table.over(formula))));
    }
    return all.stream();
  }

  /** On the GPU that was measured, the model takes what is nearly as fast as the fastest. */
  @ParameterizedTest(name = "{0} ranks, {1}")
  @MethodSource("bases")
  void choosesNearlyAsMeasured(int nRanks, String kind, CostModel base) {
    CostModel modelled = new UnmeasuredWindowCosts(base, nRanks, /* links= */ 0);
    CostModel measured = measured(nRanks);
    double mean = ChosenTimes.meanOfLeast(modelled, measured, MEASURED, 1.6);
    assertTrue(mean < 1.05, kind + ": chosen times are " + mean + " of the least");
  }

  @Test
  void windowsAreUsedOverNvlink() {
    for (int nRanks : new int[] {2, 8, 16}) {
      CostModel costs = unmeasured(nRanks, /* nvlink= */ true, null);
      assertTrue(costs.comparesWindows());
      assertEquals(
          Algorithm.DIRECT_LL,
          ChosenTimes.choose(costs, Operation.ALL_REDUCE, 4 << 10).algorithm());
      assertTrue(
          ChosenTimes.choose(costs, Operation.ALL_REDUCE, 1 << 20).algorithm().isBetweenWindows());
      assertTrue(
          ChosenTimes.choose(costs, Operation.ALL_TO_ALL, 1 << 20).algorithm().isBetweenWindows());
    }
  }

  @Test
  void windowsAreUsedWithASearchedTopology() {
    CostModel costs = unmeasured(8, true, TopologyCostModelTest.topology(1, 8, 100, 18));
    for (long bytes : new long[] {1 << 10, 1 << 20, 1 << 26}) {
      assertTrue(
          ChosenTimes.choose(costs, Operation.REDUCE_SCATTER, bytes).algorithm().isBetweenWindows(),
          bytes + " bytes");
    }
  }

  /** Twice the links need twice the blocks; half of them, of slower multiprocessors, as many. */
  @ParameterizedTest
  @CsvSource({"90, 18, 16", "100, 18, 31", "80, 12, 16", "90, 4, 16"})
  void fewBlocksFillTheLinks(int architecture, int links, int blocks) {
    CostModel costs =
        unmeasured(2, true, TopologyCostModelTest.topology(1, 2, architecture, links));
    AlgorithmChoice direct =
        new AlgorithmChoice(Algorithm.DIRECT_ONE_SHOT, Protocol.SIMPLE, /* microseconds= */ 1);
    assertEquals(blocks, costs.fewestChannels(Operation.ALL_GATHER, direct, 16 << 20));
    assertEquals(0, costs.fewestChannels(Operation.ALL_GATHER, direct, 1 << 10), "small");
  }

  /** Kernels' loads over PCIe were never measured. */
  @Test
  void windowsAreLeftOverPcie() {
    CostModel costs = unmeasured(4, /* nvlink= */ false, null);
    assertFalse(costs.comparesWindows());
    assertFalse(
        ChosenTimes.choose(costs, Operation.ALL_GATHER, 1 << 20).algorithm().isBetweenWindows());
  }
}
