package org.nccl4j.api.plan.cost;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** The blocks of measured operations, from the tables of the models of GPU. */
class MeasuredBlocksTest {
  private static final String MODEL = "NVIDIA H200";
  private static final long LARGE = 16 << 20;

  private static CostModel costs(int nRanks) {
    CostModel base = new GpuCostModel(nRanks, /* reach= */ true, /* nvlink= */ true);
    return GpuWindowCosts.of(MODEL, nRanks)
        .over(MeasuredCosts.find(MODEL, nRanks).orElseThrow().over(base), true, Optional.empty());
  }

  private static AlgorithmChoice by(Algorithm algorithm) {
    return new AlgorithmChoice(algorithm, Protocol.SIMPLE, 1);
  }

  @Test
  void ofTwoRanksTheTableHasThem() {
    CostModel costs = costs(2);
    AlgorithmChoice direct = by(Algorithm.DIRECT_ONE_SHOT);
    assertEquals(16, costs.fewestChannels(Operation.ALL_GATHER, direct, LARGE));
    assertTrue(costs.channels(Operation.ALL_GATHER, direct, LARGE) > 16);
    assertEquals(0, costs.fewestChannels(Operation.ALL_GATHER, direct, 1 << 10), "small");
    AlgorithmChoice engine = by(Algorithm.COPY_ENGINE);
    assertEquals(
        0, costs.fewestChannels(Operation.ALL_GATHER, engine, 256 << 20), "the device knows");
    AlgorithmChoice ring = by(Algorithm.RING);
    assertEquals(48, costs.fewestChannels(Operation.ALL_GATHER, ring, 256 << 20));
    assertEquals(0, costs.fewestChannels(Operation.ALL_GATHER, ring, 64 << 20));
  }

  /** Measured with 4 blocks for 16 KiB and with 32 for 64 KiB. */
  @Test
  void betweenMeasuredSizesTheNumberIsBetween() {
    CostModel costs = costs(2);
    AlgorithmChoice lines = by(Algorithm.DIRECT_LL);
    for (long[] expected :
        new long[][] {{1, 1}, {16, 4}, {17, 8}, {32, 16}, {48, 32}, {64, 32}, {4096, 128}}) {
      long bytes = 2 * (expected[0] << 10); // of both ranks
      assertEquals(expected[1], costs.channels(Operation.ALL_GATHER, lines, bytes), "KiB " + bytes);
    }
    AlgorithmChoice few = by(Algorithm.DIRECT_TWO_SHOT);
    assertEquals(8, costs.channels(Operation.ALL_REDUCE, few, 512 << 10));
    assertEquals(32, costs.channels(Operation.ALL_REDUCE, few, 1 << 20));
  }

  @Test
  void ofFourRanksNoneWereMeasured() {
    CostModel costs = costs(4);
    for (Operation operation : Operation.ofAllRanks()) {
      for (Algorithm algorithm : Algorithm.betweenWindows()) {
        assertEquals(0, costs.fewestChannels(operation, by(algorithm), LARGE));
      }
    }
  }
}
