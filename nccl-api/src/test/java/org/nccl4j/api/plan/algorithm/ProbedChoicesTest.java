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
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

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

  private static CommunicatorProfile profile(String model, int nRanks) {
    return new CommunicatorProfile(nRanks, Device.Kind.CUDA, model, true, true)
        .with(Optional.of(TopologyCostModelTest.topology(1, nRanks, 90, 18)));
  }

  private static TunedTable probe(CostModel measured, int nRanks, int most) {
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

  private static AlgorithmChoice choose(CostModel costs, Operation operation, long bytes) {
    BufferReach windows =
        new BufferReach(
            BufferReach.By.PEERS,
            BufferReach.By.PEERS,
            /* overlaps= */ false,
            /* covered= */ false);
    return new AlgorithmSelector(costs, AlgorithmFilter.ALL)
        .choose(operation, bytes, DataType.FLOAT32, RedOp.SUM, windows);
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 4, 8})
  void choicesAreNearlyAsFastAsByTheWholeTable(int nRanks) {
    CostModel measured = profile(H200, nRanks).costs(null);
    CostModel probed = profile(OTHER, nRanks).with(probe(measured, nRanks, 1000)).costs(null);
    assertTrue(probed.source().contains("probe"), probed.source());
    double logs = 0;
    int cells = 0;
    for (Operation operation : OPERATIONS) {
      for (long bytes = 1 << 10; bytes <= 1L << 29; bytes *= 2) {
        AlgorithmChoice taken = choose(probed, operation, bytes);
        double time = measured.microseconds(operation, taken.algorithm(), taken.protocol(), bytes);
        double least = choose(measured, operation, bytes).microseconds();
        assertTrue(time < 1.5 * least, operation + " of " + bytes + " by " + taken);
        logs += Math.log(time / least);
        cells++;
      }
    }
    double mean = Math.exp(logs / cells);
    assertTrue(mean < 1.03, "chosen times are " + mean + " of the least");
  }

  /** Space for lines is made ahead, so that operations outside windows have them. */
  @Test
  void linesAreChosenBeforeTheFirstWindow() {
    CostModel without = profile(OTHER, 2).costs(null);
    assertFalse(without.makesSpaceAhead());
    CostModel probed =
        profile(OTHER, 2).with(probe(profile(H200, 2).costs(null), 2, 1000)).costs(null);
    assertTrue(probed.makesSpaceAhead());
    BufferReach outside = new BufferReach(BufferReach.By.OWN, BufferReach.By.OWN, false, false);
    AlgorithmChoice choice =
        new AlgorithmSelector(probed, AlgorithmFilter.ALL)
            .choose(Operation.ALL_REDUCE, 4096, DataType.FLOAT32, RedOp.SUM, outside);
    assertEquals(Algorithm.DIRECT_LL, choice.algorithm());
  }

  /** A short budget leaves times out; what has none never wins by that. */
  @ParameterizedTest
  @ValueSource(ints = {4, 5, 20, 40, 70})
  void aPartOfTheTimesGivesChoicesToo(int most) {
    CostModel measured = profile(H200, 2).costs(null);
    CostModel probed = profile(OTHER, 2).with(probe(measured, 2, most)).costs(null);
    for (Operation operation : OPERATIONS) {
      for (long bytes = 1 << 10; bytes <= 1L << 29; bytes *= 2) {
        AlgorithmChoice taken = choose(probed, operation, bytes);
        double time = measured.microseconds(operation, taken.algorithm(), taken.protocol(), bytes);
        double least = choose(measured, operation, bytes).microseconds();
        assertTrue(time < 4 * least, operation + " of " + bytes + " by " + taken);
      }
    }
  }
}
