package org.nccl4j.api.plan.algorithm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.init.probe.ProbeTables;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
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

/** Choices by the times of a probe, on a GPU that is as fast as one whose times are known. */
class ProbedChoicesTest {
  private static final String H200 = "NVIDIA H200";
  private static final String OTHER = "NVIDIA X";
  private static final List<Operation> OPERATIONS =
      List.of(
          Operation.ALL_REDUCE,
          Operation.ALL_GATHER,
          Operation.REDUCE_SCATTER,
          Operation.ALL_TO_ALL);

  private static final long LARGE = 64 << 20;

  private static Optional<TunedTable> probe(CostModel measured, int nRanks, int most) {
    return ProbeTables.of(
        OTHER,
        nRanks,
        most,
        (operation, algorithm, protocol, bytes) ->
            algorithm == Algorithm.PAIRWISE && operation.isCollective()
                    || algorithm != Algorithm.PAIRWISE
                        && !measured.algorithms(operation).contains(algorithm)
                ? Double.POSITIVE_INFINITY
                : measured.microseconds(operation, algorithm, protocol, bytes));
  }

  private static CommunicatorProfile with(CommunicatorProfile without, Optional<TunedTable> table) {
    return table.map(without::with).orElse(without);
  }

  /**
   * Rings of GPUs over PCIe that are as fast as predicted, in slots and at half the speed in LL.
   */
  private static ProbeTables.Times rings(CostModel predicted) {
    return (operation, algorithm, protocol, bytes) -> {
      if (algorithm != Algorithm.RING || protocol == Protocol.LL128 || !algorithm.has(operation)) {
        return Double.POSITIVE_INFINITY;
      }
      double large = predicted.microseconds(operation, algorithm, Protocol.SIMPLE, LARGE) / LARGE;
      return protocol == Protocol.LL ? 8 + 1.8 * large * bytes : 24 + large * bytes;
    };
  }

  /** A probe that ends early leaves large data to slots, which carry twice as much as lines. */
  @Test
  void linesOfAShortProbeDoNotWinAtLargeSizes() {
    CommunicatorProfile pcie =
        new CommunicatorProfile(4, Device.Kind.CUDA, OTHER, false, false)
            .with(Optional.of(TopologyCostModelTest.topology(1, 4, 90, 0)));
    ProbeTables.Times times = rings(pcie.costs());
    int small = ProbeTables.small(times);
    assertTrue(small > 10, small + " cells");
    for (int most = 2; most <= small; most++) {
      CostModel costs = with(pcie, ProbeTables.of(OTHER, 4, most, times)).costs();
      for (Operation operation : OPERATIONS.subList(0, 3)) {
        AlgorithmChoice choice =
            new AlgorithmSelector(costs, AlgorithmFilter.ALL)
                .choose(operation, LARGE, DataType.FLOAT32, RedOp.SUM);
        assertEquals(Protocol.SIMPLE, choice.protocol(), most + " cells: " + operation);
      }
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 4, 8})
  void choicesAreNearlyAsFastAsByTheWholeTable(int nRanks) {
    CostModel measured = ChosenTimes.profile(H200, nRanks).costs();
    CostModel probed =
        with(ChosenTimes.profile(OTHER, nRanks), probe(measured, nRanks, 1000)).costs();
    assertTrue(probed.source().contains("probe"), probed.source());
    double mean = ChosenTimes.meanOfLeast(probed, measured, OPERATIONS, 1.5);
    assertTrue(mean < 1.03, "chosen times are " + mean + " of the least");
  }

  /** Space for lines is made ahead, so that operations outside windows have them. */
  @Test
  void linesAreChosenBeforeTheFirstWindow() {
    CostModel without = ChosenTimes.profile(OTHER, 2).costs();
    assertFalse(without.makesSpaceAhead());
    CostModel probed =
        with(ChosenTimes.profile(OTHER, 2), probe(ChosenTimes.profile(H200, 2).costs(), 2, 1000))
            .costs();
    assertTrue(probed.makesSpaceAhead());
    BufferReach outside =
        new BufferReach(BufferReach.By.OWN, BufferReach.By.OWN, false, false, false);
    AlgorithmChoice choice =
        new AlgorithmSelector(probed, AlgorithmFilter.ALL)
            .choose(Operation.ALL_REDUCE, 4096, DataType.FLOAT32, RedOp.SUM, outside);
    assertEquals(Algorithm.DIRECT_LL, choice.algorithm());
  }

  /** A short budget leaves times out; what has none never wins by that. */
  @ParameterizedTest
  @ValueSource(ints = {4, 5, 20, 40, 70})
  void aPartOfTheTimesGivesChoicesToo(int most) {
    CostModel measured = ChosenTimes.profile(H200, 2).costs();
    CostModel probed = with(ChosenTimes.profile(OTHER, 2), probe(measured, 2, most)).costs();
    ChosenTimes.meanOfLeast(probed, measured, OPERATIONS, 4);
  }
}
