package org.nccl4j.api.plan.algorithm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.CostModel;
import org.nccl4j.api.plan.cost.SwitchSpeed;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** The choices with a switch whose speed was measured, among 8 H200. */
class SwitchComparisonTest {
  private static final int N = 8;
  private static final CommunicatorProfile FACTS = ChosenTimes.profile("NVIDIA H200", N);
  private static final Nvls NVLS =
      new Nvls(
          new NvlsLayout(N, 16, 128 << 10),
          IntStream.range(0, N).boxed().toList(),
          0,
          null,
          new MulticastMemory(/* emulated= */ false, List.of()));

  private static double micros(CostModel costs) {
    return costs.microseconds(Operation.ALL_REDUCE, Algorithm.NVLS, Protocol.SIMPLE, 1L << 30);
  }

  private static CostModel costs(SwitchSpeed speed) {
    return FACTS.costs(NVLS, Optional.of(speed));
  }

  /** A measurement after the first choice may only lower what that choice counted with. */
  @Test
  void aLateMeasurementOnlyLowersTheSpeed() {
    double predicted = micros(FACTS.costs(NVLS, Optional.empty()));
    assertEquals(predicted, micros(costs(new SwitchSpeed(5000, /* isEarly= */ false))));
    assertTrue(micros(costs(new SwitchSpeed(5000, /* isEarly= */ true))) < predicted);
    double slow = micros(costs(new SwitchSpeed(50, /* isEarly= */ false)));
    assertTrue(slow > predicted);
    assertEquals(slow, micros(costs(new SwitchSpeed(50, /* isEarly= */ true))));
    assertEquals(20 + 1.125 * (1L << 30) / 50e3, slow, 1);
  }

  /** A choice without NVLS before the measurement is the same after it. */
  @ParameterizedTest
  @CsvSource({"50", "200", "300", "5000"})
  void choicesBeforeAndAfterAreAlike(double gigabytes) {
    AlgorithmSelector before =
        new AlgorithmSelector(FACTS.costs(NVLS, Optional.empty()), AlgorithmFilter.ALL);
    AlgorithmSelector after =
        new AlgorithmSelector(
            costs(new SwitchSpeed(gigabytes, /* isEarly= */ false)), AlgorithmFilter.ALL);
    for (Operation operation : List.of(Operation.ALL_REDUCE, Operation.ALL_GATHER)) {
      for (long bytes = 8; bytes <= 4L << 30; bytes *= 2) {
        AlgorithmChoice first = before.choose(operation, bytes, DataType.FLOAT32, RedOp.SUM);
        if (first.algorithm() != Algorithm.NVLS) {
          assertEquals(first, after.choose(operation, bytes, DataType.FLOAT32, RedOp.SUM));
        }
      }
    }
  }

  @Test
  void aSwitchThatIsNeverTheFastestIsSlow() {
    SwitchComparison comparison = new SwitchComparison(FACTS, NVLS, AlgorithmFilter.ALL);
    assertEquals("", comparison.slowness(new SwitchSpeed(312, true)));
    String reason = comparison.slowness(new SwitchSpeed(20, true));
    assertTrue(
        reason.startsWith(
            "it is slower than the other algorithms: all_reduce of 64 MiB takes 3795 us at the 20"
                + " GB/s that were measured, and "),
        reason);
  }
}
