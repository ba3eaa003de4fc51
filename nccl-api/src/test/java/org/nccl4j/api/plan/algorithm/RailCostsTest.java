package org.nccl4j.api.plan.algorithm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.device.Device;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

class RailCostsTest {
  private static CommunicatorProfile profile(
      Device.Kind kind, int nRanks, int hosts, int mostRanks, boolean carried, boolean inOrder) {
    RankPlacement spread =
        new RankPlacement(hosts, mostRanks, carried, ConnectionLayout.CHANNELS, false, inOrder);
    return new CommunicatorProfile(
        nRanks, kind, "", false, false, spread, Optional.empty(), Optional.empty());
  }

  private static Algorithm choice(CommunicatorProfile ranks, String algorithms, long part) {
    return new AlgorithmSelector(ranks.costs(), AlgorithmFilter.parse(algorithms, ""))
        .chooseExchange(Operation.ALL_TO_ALL, part * ranks.nRanks())
        .algorithm();
  }

  /** The more messages are saved, the larger the parts that are worth a second step. */
  @ParameterizedTest
  @CsvSource({"2, 4", "2, 8", "4, 4", "8, 2", "16, 8"})
  void smallPartsGoByRailsAndLargeOnesPairwise(int hosts, int ranksAHost) {
    CommunicatorProfile ranks =
        profile(Device.Kind.HOST, hosts * ranksAHost, hosts, ranksAHost, true, true);
    assertEquals(Algorithm.RAILS, choice(ranks, "", 64));
    assertEquals(Algorithm.PAIRWISE, choice(ranks, "", 1 << 20));
    int changes = 0;
    for (long part = 1; part <= 1 << 26; part *= 2) {
      changes += choice(ranks, "", part) == choice(ranks, "", 2 * part) ? 0 : 1;
      assertEquals(Algorithm.RAILS, choice(ranks, "alltoall:rails", part));
      assertEquals(Algorithm.PAIRWISE, choice(ranks, "alltoall:^rails", part));
    }
    assertEquals(1, changes);
  }

  /** A second step takes longer than a message. */
  @Test
  void twoRanksOnEachOfTwoHostsExchangePairwise() {
    CommunicatorProfile ranks = profile(Device.Kind.HOST, 4, 2, 2, true, true);
    for (long part = 1; part <= 1 << 20; part *= 4) {
      assertEquals(Algorithm.PAIRWISE, choice(ranks, "", part));
    }
  }

  /** They are not measured there. */
  @Test
  void onGpusTheyAreTakenWhereTheUserNamesThem() {
    CommunicatorProfile ranks = profile(Device.Kind.CUDA, 128, 16, 8, true, true);
    assertEquals(Algorithm.PAIRWISE, choice(ranks, "", 64));
    assertEquals(Algorithm.PAIRWISE, choice(ranks, "ring", 64));
    assertEquals(Algorithm.RAILS, choice(ranks, "alltoall:rails", 64));
  }

  @ParameterizedTest
  @CsvSource({
    "4, 2, 2, true, true, true",
    "4, 1, 4, true, true, false",
    "4, 4, 1, true, true, false",
    "5, 2, 3, true, true, false",
    "4, 2, 2, false, true, false",
    "4, 2, 2, true, false, false"
  })
  void thereAreRailsBetweenEvenHostsInOrder(
      int nRanks, int hosts, int mostRanks, boolean carried, boolean inOrder, boolean rails) {
    CommunicatorProfile ranks =
        profile(Device.Kind.HOST, nRanks, hosts, mostRanks, carried, inOrder);
    CostModel costs = ranks.costs();
    assertEquals(rails, costs.algorithms(Operation.ALL_TO_ALL).contains(Algorithm.RAILS));
    for (Operation operation : Operation.collectives()) {
      assertTrue(!costs.algorithms(operation).contains(Algorithm.RAILS));
    }
  }
}
