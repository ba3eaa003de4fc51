package org.nccl4j.api.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.Algorithm;
import org.nccl4j.device.kernel.Collective;
import org.nccl4j.device.kernel.Protocol;

class GpuNetCostModelTest {
  private static CostModel costs(int hosts, int ranksAHost, int channels) {
    return new RankFacts(
            hosts * ranksAHost,
            Device.Kind.CUDA,
            "NVIDIA H200",
            false,
            false,
            new Spread(hosts, ranksAHost, /* carried= */ true, channels),
            Optional.empty(),
            Optional.empty())
        .costs();
  }

  private static Choice choose(CostModel costs, Collective collective, long bytes) {
    return new Chooser(costs, "", "").choose(collective, bytes, DataType.FLOAT32, RedOp.SUM);
  }

  /** One host of ranks that reach each other over the network alone, too. */
  @ParameterizedTest
  @CsvSource({"1, 4", "2, 2", "2, 8", "5, 1", "16, 8"})
  void treesForSmallRingsForLarge(int hosts, int ranksAHost) {
    CostModel costs = costs(hosts, ranksAHost, 2);
    for (Collective collective : Collective.values()) {
      Choice large = choose(costs, collective, 1L << 30);
      assertEquals(Algorithm.RING, large.algorithm());
      assertEquals(2, costs.channels(collective, large, 1L << 30));
      Choice small = choose(costs, collective, 8);
      boolean tree = collective == Collective.ALL_REDUCE && hosts * ranksAHost > 2;
      assertEquals(tree ? Algorithm.TREE : Algorithm.RING, small.algorithm(), collective.label());
      assertEquals(1, costs.channels(collective, small, 8));
    }
  }

  @Test
  void slotsAloneAreCarriedWhateverTheUserNames() {
    CostModel costs = costs(2, 4, 3);
    assertEquals(List.of(Protocol.SIMPLE), costs.protocols());
    assertTrue(costs.smallSendBytes(Func.SEND) < 0);
    Chooser chooser = new Chooser(costs, "oneshot", "LL128");
    Choice choice = chooser.choose(Collective.ALL_GATHER, 1 << 20, DataType.INT8, RedOp.SUM);
    assertEquals(Protocol.SIMPLE, choice.protocol());
    assertEquals(Algorithm.RING, choice.algorithm());
    assertEquals(3, costs.channels(Collective.ALL_GATHER, choice, 1 << 20));
  }
}
