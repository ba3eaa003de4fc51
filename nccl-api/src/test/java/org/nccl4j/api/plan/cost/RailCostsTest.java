package org.nccl4j.api.plan.cost;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.plan.algorithm.AlgorithmSelector;
import org.nccl4j.api.plan.algorithm.TunerHook;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.cluster.CommTopology;

class RailCostsTest {
  private static CommunicatorProfile profile(
      Device.Kind kind, List<List<Integer>> hosts, boolean carried) {
    RankPlacement spread =
        new RankPlacement(hosts, carried, ConnectionLayout.CHANNELS, /* lines= */ false, "Socket");
    int nRanks = hosts.stream().mapToInt(List::size).sum();
    return new CommunicatorProfile(
        nRanks, kind, "", false, false, spread, Optional.empty(), Optional.empty());
  }

  /** With as many ranks on each host, which are numbered by turns of the hosts if cyclic. */
  private static CommunicatorProfile even(
      Device.Kind kind, int hosts, int ranksAHost, boolean cyclic) {
    List<List<Integer>> ranks = new ArrayList<>();
    for (int host = 0; host < hosts; host++) {
      int first = host;
      ranks.add(
          IntStream.range(0, ranksAHost)
              .mapToObj(i -> cyclic ? first + i * hosts : first * ranksAHost + i)
              .toList());
    }
    return profile(kind, ranks, /* carried= */ true);
  }

  private static Algorithm choice(CommunicatorProfile ranks, String algorithms, long part) {
    return new AlgorithmSelector(ranks.costs(), AlgorithmFilter.parse(algorithms, ""))
        .chooseExchange(Operation.ALL_TO_ALL, part * ranks.nRanks(), DataType.UINT8)
        .algorithm();
  }

  /** The more messages are saved, the larger the parts that are worth a second step. */
  @ParameterizedTest
  @CsvSource({
    "2, 4, false",
    "2, 8, false",
    "4, 4, false",
    "8, 2, false",
    "16, 8, false",
    "2, 4, true",
    "4, 4, true",
    "16, 8, true"
  })
  void smallPartsGoByRailsAndLargeOnesPairwise(int hosts, int ranksAHost, boolean cyclic) {
    CommunicatorProfile ranks = even(Device.Kind.HOST, hosts, ranksAHost, cyclic);
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

  /** It is asked where there are two ways. */
  @Test
  void aTunerDecidesByItsTimes() {
    CommunicatorProfile ranks = even(Device.Kind.HOST, 4, 4, /* cyclic= */ false);
    TunerHook slower =
        (operation, bytes, type, ways) -> {
          assertEquals("ALL_TO_ALL 1024 INT32", operation + " " + bytes + " " + type);
          return ways.stream()
              .map(way -> way.algorithm() == Algorithm.RAILS ? way.taking(1e9) : way)
              .toList();
        };
    AlgorithmChoice choice =
        new AlgorithmSelector(ranks.costs(), AlgorithmFilter.ALL, slower)
            .chooseExchange(Operation.ALL_TO_ALL, 1024, DataType.INT32);
    assertEquals(Algorithm.PAIRWISE, choice.algorithm());
  }

  /** A second step takes longer than a message. */
  @Test
  void twoRanksOnEachOfTwoHostsExchangePairwise() {
    CommunicatorProfile ranks = even(Device.Kind.HOST, 2, 2, /* cyclic= */ false);
    for (long part = 1; part <= 1 << 20; part *= 4) {
      assertEquals(Algorithm.PAIRWISE, choice(ranks, "", part));
    }
  }

  /** They are not measured there. */
  @Test
  void onGpusTheyAreTakenWhereTheUserNamesThem() {
    CommunicatorProfile ranks = even(Device.Kind.CUDA, 16, 8, /* cyclic= */ false);
    assertEquals(Algorithm.PAIRWISE, choice(ranks, "", 64));
    assertEquals(Algorithm.PAIRWISE, choice(ranks, "ring", 64));
    assertEquals(Algorithm.RAILS, choice(ranks, "alltoall:rails", 64));
  }

  /**
   * The network's bandwidth is then the topology's, and the mark does not hide what is predicted.
   */
  @Test
  void onGpusOfAKnownTopologyTheNetworkIsItsOwn() {
    CommunicatorProfile unknown = even(Device.Kind.CUDA, 2, 8, /* cyclic= */ false);
    CostModel costs =
        unknown.with(Optional.of(TopologyCostModelTest.topology(2, 8, 90, 18))).costs();
    long large = 1L << 32;
    double pairwise = time(costs, Algorithm.PAIRWISE, large);
    assertTrue(pairwise < time(unknown.costs(), Algorithm.PAIRWISE, large) / 4);
    double rails = time(costs, Algorithm.RAILS, large);
    assertTrue(rails > CostModel.ONLY_WHERE_ASKED);
    assertTrue(CostModel.predicted(rails) > pairwise, "bytes move twice");
    assertTrue(
        CostModel.predicted(time(costs, Algorithm.RAILS, 1 << 10))
            < 10 * time(costs, Algorithm.PAIRWISE, 1 << 10));
    assertEquals(pairwise, CostModel.predicted(pairwise));
    assertEquals(
        "formula of messages and bytes, topology's network",
        costs.source(Operation.ALL_TO_ALL, Algorithm.PAIRWISE, Protocol.SIMPLE));
  }

  /** Two ranks a host on one channel: 5.2 GB/s each, though cards carry more. */
  @Test
  void messagesOfGpusGetNoMoreThanTheirChannelsCarry() {
    long bytes = 1L << 32;
    Optional<CommTopology> topology = Optional.of(TopologyCostModelTest.topology(2, 2, 90, 18));
    for (Device.Kind kind : Device.Kind.values()) {
      double[] times = new double[2];
      for (int channels = 1; channels <= 2; channels++) {
        RankPlacement spread = new RankPlacement(2, 2, true, channels, false);
        CommunicatorProfile ranks =
            new CommunicatorProfile(4, kind, "", false, false, spread, topology, Optional.empty());
        times[channels - 1] = ranks.messages(0, 0, 1, 2 * bytes);
        double pairwise = time(ranks.costs(), Algorithm.PAIRWISE, 2 * bytes);
        assertTrue(pairwise >= (kind == Device.Kind.HOST ? 0 : bytes / (2 * channels * 5.2e3)));
      }
      assertEquals(
          kind == Device.Kind.HOST ? 0 : bytes / 10.4e3, times[0] - times[1], 1e-6 * times[0]);
    }
  }

  /** Parts are then copied together before they are sent. */
  @Test
  void ranksInAnotherNumberingPayForACopy() {
    CostModel inOrder = even(Device.Kind.HOST, 4, 4, /* cyclic= */ false).costs();
    CostModel cyclic = even(Device.Kind.HOST, 4, 4, /* cyclic= */ true).costs();
    for (long bytes = 16; bytes <= 1 << 26; bytes *= 4) {
      assertEquals(
          time(inOrder, Algorithm.PAIRWISE, bytes), time(cyclic, Algorithm.PAIRWISE, bytes));
      assertTrue(time(inOrder, Algorithm.RAILS, bytes) < time(cyclic, Algorithm.RAILS, bytes));
    }
  }

  private static double time(CostModel costs, Algorithm algorithm, long bytes) {
    return costs.microseconds(Operation.ALL_TO_ALL, algorithm, Protocol.SIMPLE, bytes);
  }

  /** The one rank of a host gets as many messages by rails as pairwise. */
  @Test
  void hostsWithOneRankBesideALargeOneExchangePairwise() {
    CommunicatorProfile ranks = profile(Device.Kind.HOST, hosts("aaaaaaab"), /* carried= */ true);
    for (long part = 1; part <= 1 << 20; part *= 4) {
      assertEquals(Algorithm.PAIRWISE, choice(ranks, "", part));
    }
    assertEquals(Algorithm.RAILS, choice(ranks, "alltoall:rails", 64));
    ranks = profile(Device.Kind.HOST, hosts("aaaaaaaabbbbbbbcccccccc"), /* carried= */ true);
    assertEquals(Algorithm.RAILS, choice(ranks, "", 64));
  }

  private static List<List<Integer>> hosts(String placement) {
    return placement
        .chars()
        .distinct()
        .mapToObj(
            host ->
                IntStream.range(0, placement.length())
                    .filter(rank -> placement.charAt(rank) == host)
                    .boxed()
                    .toList())
        .toList();
  }

  @ParameterizedTest
  @CsvSource({
    "aabb, true, true",
    "abab, true, true",
    "aabbb, true, true",
    "aaaa, true, false",
    "abcd, true, false",
    "aabb, false, false"
  })
  void thereAreRailsBetweenHostsWithSeveralRanks(String placement, boolean carried, boolean rails) {
    CostModel costs = profile(Device.Kind.HOST, hosts(placement), carried).costs();
    assertEquals(rails, costs.algorithms(Operation.ALL_TO_ALL).contains(Algorithm.RAILS));
    for (Operation operation : Operation.collectives()) {
      assertTrue(!costs.algorithms(operation).contains(Algorithm.RAILS));
    }
  }
}
