package org.nccl4j.api.plan.cost;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** The costs and steps of operations on the host device. */
class HostCostModelTest {
  private static final int RANKS = 2;
  private static final HostCostModel COSTS = new HostCostModel(RANKS, RANKS);
  private static final ConnectionLayout LAYOUT =
      new ConnectionLayout(32 << 10, 128 << 10, 512 << 10);

  private static int chunk(Operation operation, long bytes) {
    return COSTS.chunkBytes(
        LAYOUT, operation, new AlgorithmChoice(Algorithm.RING, Protocol.SIMPLE, 0), bytes);
  }

  @Test
  void stepsOfLargePartsAreReadFromTheSendersBuffer() {
    for (Operation operation : Operation.ofAllRanks()) {
      for (long bytes = 32 << 10; bytes <= 64 << 20; bytes *= 2) {
        assertTrue(chunk(operation, bytes) >= SingleCopy.LEAST_BYTES, operation + " " + bytes);
      }
    }
  }

  @Test
  void aPartIsCutIntoFourStepsThatFitTheSlots() {
    assertEquals(64 << 10, chunk(Operation.BROADCAST, 256 << 10));
    assertEquals(32 << 10, chunk(Operation.ALL_REDUCE, 256 << 10));
    assertEquals(512 << 10, chunk(Operation.ALL_REDUCE, 64 << 20));
  }

  @Test
  void bytesThatAreReadFromTheSendersBufferTakeHalfTheTime() {
    long part = SingleCopy.LEAST_BYTES;
    double slots = perByte(Operation.ALL_GATHER, RANKS * (part / 4), RANKS * (part / 2));
    double buffers = perByte(Operation.ALL_GATHER, RANKS * part, RANKS * 4 * part);
    assertEquals(2, slots / buffers, 1e-6);
  }

  @Test
  void manyRanksGatherSmallPartsAlongTrees() {
    CostModel many = new OneHostCosts(new HostCostModel(16, 16));
    for (long bytes : new long[] {2 << 10, 8 << 10}) {
      double trees = gather(many, Algorithm.PAT, Protocol.SIMPLE, bytes);
      assertTrue(trees < gather(many, Algorithm.ONE_SHOT, Protocol.LL128, bytes), bytes + " bytes");
      assertTrue(
          trees < gather(many, Algorithm.ONE_SHOT, Protocol.SIMPLE, bytes), bytes + " bytes");
    }
    long large = 512 << 10;
    assertTrue(
        gather(many, Algorithm.ONE_SHOT, Protocol.SIMPLE, large)
            < gather(many, Algorithm.PAT, Protocol.SIMPLE, large));
  }

  @Test
  void fewRanksAndRanksThatShareCoresGatherStraight() {
    for (CostModel costs :
        List.of(
            new OneHostCosts(new HostCostModel(8, 16)),
            new OneHostCosts(new HostCostModel(16, 8)))) {
      double trees = gather(costs, Algorithm.PAT, Protocol.SIMPLE, 2 << 10);
      assertTrue(trees >= CostModel.ONLY_WHERE_ASKED, costs.toString());
    }
  }

  private static double gather(
      CostModel costs, Algorithm algorithm, Protocol protocol, long bytes) {
    return costs.microseconds(Operation.ALL_GATHER, algorithm, protocol, bytes);
  }

  private static double perByte(Operation operation, long few, long many) {
    double more =
        COSTS.microseconds(operation, Algorithm.RING, Protocol.SIMPLE, many)
            - COSTS.microseconds(operation, Algorithm.RING, Protocol.SIMPLE, few);
    return more / (many - few);
  }
}
