package org.nccl4j.api.plan.cost;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.plan.algorithm.AlgorithmSelector;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

class GpuChoiceTest {
  private static CostModel costs(int nRanks, String model, boolean reach, boolean nvlink) {
    return new CommunicatorProfile(nRanks, Device.Kind.CUDA, model, reach, nvlink).costs();
  }

  private static String choice(CostModel costs, Operation operation, long bytes) {
    AlgorithmChoice choice =
        new AlgorithmSelector(costs, AlgorithmFilter.ALL)
            .choose(operation, bytes, DataType.FLOAT32, RedOp.SUM);
    return choice.algorithm().label() + " " + choice.protocol().label();
  }

  @ParameterizedTest
  @CsvSource({
    "4, ALL_REDUCE, 8, OneShot LL128",
    "4, ALL_REDUCE, 131072, OneShot LL128",
    "4, ALL_REDUCE, 524288, TwoShot LL128",
    "4, ALL_REDUCE, 8388608, TwoShot Simple",
    "4, ALL_REDUCE, 4294967296, Ring Simple",
    "4, ALL_GATHER, 524288, OneShot LL128",
    "4, ALL_GATHER, 8388608, OneShot Simple",
    "4, ALL_GATHER, 33554432, Ring Simple",
    "4, REDUCE_SCATTER, 8388608, OneShot Simple",
    "4, BROADCAST, 131072, OneShot LL128",
    "4, BROADCAST, 8388608, Ring Simple",
    "2, ALL_REDUCE, 33554432, TwoShot Simple",
    "2, ALL_REDUCE, 134217728, Ring Simple",
    "2, ALL_GATHER, 33554432, OneShot Simple",
    "2, ALL_GATHER, 536870912, Ring Simple",
    "4, REDUCE_SCATTER, 536870912, Ring Simple",
    "2, REDUCE, 2097152, Ring Simple",
  })
  void onH200TheFastestThatWasMeasuredIsChosen(
      int nRanks, Operation operation, long bytes, String expected) {
    CostModel costs = costs(nRanks, "NVIDIA H200", true, true);
    assertTrue(costs.source().contains("nvidia-h200.costs"));
    assertEquals(expected, choice(costs, operation, bytes));
  }

  /** Numbers of ranks that were not measured use the next greater one's figures. */
  @Test
  void whereANumberOfRanksWasNotMeasuredTheNextGreaterCounts() {
    CostModel three = costs(3, "NVIDIA H200", true, true);
    CostModel four = costs(4, "NVIDIA H200", true, true);
    assertTrue(three.source().endsWith("with 4 ranks"), three.source());
    assertTrue(four.source().endsWith("nvidia-h200.costs"), four.source());
    for (long bytes = 8; bytes <= 1L << 32; bytes *= 4) {
      assertEquals(
          choice(four, Operation.ALL_REDUCE, bytes), choice(three, Operation.ALL_REDUCE, bytes));
    }
    assertTrue(GpuWindowCosts.of("NVIDIA H200", 3).areMeasured());
    assertFalse(GpuWindowCosts.of("NVIDIA H200", 33).areMeasured());
  }

  @Test
  void aModelWithTheSameLinksAndMultiprocessorsHasTheSameFigures() {
    CostModel like = costs(4, "NVIDIA H100 80GB HBM3", true, true);
    assertEquals(costs(4, "NVIDIA H200", true, true).source(), like.source());
    assertTrue(GpuWindowCosts.of("NVIDIA H100 80GB HBM3", 4).areMeasured());
    assertFalse(GpuWindowCosts.of("NVIDIA H100 PCIe", 4).areMeasured());
  }

  /** As for pre-multiplied sums; a setting that leaves nothing counts for nothing. */
  @Test
  void amongSomeAlgorithmsTheFastestOfThemIsChosen() {
    CostModel costs = costs(4, "NVIDIA H200", true, true);
    for (String algorithms : List.of("", "TwoShot", "^Ring")) {
      AlgorithmSelector chooser =
          new AlgorithmSelector(costs, AlgorithmFilter.parse(algorithms, ""));
      for (long bytes = 8; bytes <= 1L << 32; bytes *= 2) {
        AlgorithmChoice choice =
            chooser.choose(
                Operation.ALL_REDUCE,
                bytes,
                DataType.FLOAT32,
                RedOp.PROD,
                algorithm -> algorithm != Algorithm.TWO_SHOT);
        assertTrue(choice.algorithm() != Algorithm.TWO_SHOT, algorithms + " " + bytes);
        assertTrue(!algorithms.equals("^Ring") || choice.algorithm() != Algorithm.RING);
      }
    }
  }

  @Test
  void withoutATableTheFormulaDecidesAndTimeGrowsWithSize() {
    for (int nRanks = 2; nRanks <= 40; nRanks++) {
      CostModel costs = costs(nRanks, "NVIDIA Unheard-of", true, true);
      for (Operation operation : Operation.collectives()) {
        for (Algorithm algorithm : costs.overConnections(operation)) {
          assertTrue(nRanks <= 33 || !algorithm.isStraight());
          if (algorithm.isBetweenHosts(operation)) {
            assertTrue(costs.microseconds(operation, algorithm, Protocol.SIMPLE, 8) >= 1e12);
            continue;
          }
          for (Protocol protocol : costs.protocols()) {
            double before = 0;
            for (long bytes = 8; bytes <= 1L << 34; bytes *= 4) {
              double time = costs.microseconds(operation, algorithm, protocol, bytes);
              assertTrue(time > before && time < 1e7, nRanks + " " + algorithm + " " + bytes);
              before = time;
            }
          }
        }
        assertEquals("Simple", choice(costs, operation, 1L << 32).split(" ")[1]);
        if (nRanks <= 8) {
          assertFalse(choice(costs, operation, 8).endsWith("Simple"), operation.label());
        }
      }
    }
  }

  @Test
  void withoutNvlinkThereIsNoLl128AndWithoutReachNothingDirect() {
    assertFalse(costs(4, "NVIDIA H200", true, false).protocols().contains(Protocol.LL128));
    CostModel far = costs(4, "NVIDIA H200", false, false);
    for (Operation operation : Operation.collectives()) {
      assertFalse(far.overConnections(operation).contains(Algorithm.ONE_SHOT));
    }
  }

  @Test
  void directGathersGoInQuartersOfAShareAndAllElseInWholeSlots() {
    CostModel costs = costs(4, "NVIDIA H200", true, true);
    ConnectionLayout layout = new ConnectionLayout(64 << 12, 64 << 12, 64 << 15);
    AlgorithmChoice direct = new AlgorithmChoice(Algorithm.ONE_SHOT, Protocol.SIMPLE, 1);
    assertEquals(8192, costs.chunkBytes(layout, Operation.ALL_GATHER, direct, 8 << 20));
    assertEquals(2048, costs.chunkBytes(layout, Operation.ALL_GATHER, direct, 8));
    assertEquals(
        Integer.MAX_VALUE, costs.chunkBytes(layout, Operation.REDUCE_SCATTER, direct, 8 << 20));
  }

  /** Nobody has measured them on any GPU, so no comparison of times may choose them. */
  @ParameterizedTest
  @CsvSource({"NVIDIA H200", "NVIDIA Unheard-of"})
  void copiesInBatchesAreThereButNeverTheCheapest(String model) {
    CostModel costs = costs(4, model, true, true);
    for (Operation operation : Operation.ofAllRanks()) {
      for (Algorithm way : List.of(Algorithm.COPY_ENGINE_BATCH, Algorithm.COPY_ENGINE_STREAM)) {
        double time = costs.microseconds(operation, way, Protocol.SIMPLE, 1L << 32);
        assertEquals(!operation.reduces(), costs.algorithms(operation).contains(way));
        assertTrue(time >= CostModel.ONLY_WHERE_ASKED);
        assertTrue(
            operation.reduces()
                || costs.microseconds(operation, Algorithm.COPY_ENGINE, Protocol.SIMPLE, 1L << 32)
                    < CostModel.ONLY_WHERE_ASKED / 1000);
      }
    }
  }
}
