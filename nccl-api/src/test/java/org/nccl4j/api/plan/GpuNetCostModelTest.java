package org.nccl4j.api.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

class GpuNetCostModelTest {
  private static CostModel costs(int hosts, int ranksAHost, int channels) {
    return new CommunicatorProfile(
            hosts * ranksAHost,
            Device.Kind.CUDA,
            "NVIDIA H200",
            false,
            false,
            new RankPlacement(hosts, ranksAHost, /* carried= */ true, channels),
            Optional.empty(),
            Optional.empty())
        .costs(null);
  }

  private static AlgorithmChoice choose(CostModel costs, Operation operation, long bytes) {
    return new AlgorithmSelector(costs, AlgorithmFilter.ALL)
        .choose(operation, bytes, DataType.FLOAT32, RedOp.SUM);
  }

  /** One host of ranks that reach each other over the network alone, too. */
  @ParameterizedTest
  @CsvSource({"1, 4", "2, 2", "2, 8", "5, 1", "16, 8"})
  void treesForSmallRingsForLarge(int hosts, int ranksAHost) {
    CostModel costs = costs(hosts, ranksAHost, 2);
    for (Operation operation : Operation.collectives()) {
      AlgorithmChoice large = choose(costs, operation, 1L << 30);
      assertEquals(Algorithm.RING, large.algorithm());
      assertEquals(2, costs.channels(operation, large, 1L << 30));
      AlgorithmChoice small = choose(costs, operation, 8);
      boolean tree = operation == Operation.ALL_REDUCE && hosts * ranksAHost > 2;
      assertEquals(tree ? Algorithm.TREE : Algorithm.RING, small.algorithm(), operation.label());
      assertEquals(1, costs.channels(operation, small, 8));
    }
  }

  @Test
  void slotsAloneAreCarriedWhateverTheUserNames() {
    CostModel costs = costs(2, 4, 3);
    assertEquals(List.of(Protocol.SIMPLE), costs.protocols());
    assertTrue(costs.smallSendBytes(Operation.SEND) < 0);
    AlgorithmSelector chooser =
        new AlgorithmSelector(costs, AlgorithmFilter.parse("oneshot", "LL128"));
    AlgorithmChoice choice =
        chooser.choose(Operation.ALL_GATHER, 1 << 20, DataType.INT8, RedOp.SUM);
    assertEquals(Protocol.SIMPLE, choice.protocol());
    assertEquals(Algorithm.RING, choice.algorithm());
    assertEquals(3, costs.channels(Operation.ALL_GATHER, choice, 1 << 20));
  }
}
