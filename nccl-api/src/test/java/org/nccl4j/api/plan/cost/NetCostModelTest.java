package org.nccl4j.api.plan.cost;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.plan.algorithm.AlgorithmSelector;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.DoubleBinaryTree;

class NetCostModelTest {
  private static CostModel costs(int hosts, int ranksAHost) {
    RankPlacement spread = new RankPlacement(hosts, ranksAHost, /* carried= */ true);
    return new NetCostModel(hosts * ranksAHost, spread);
  }

  /** The more hosts, the more a logarithm of messages saves. */
  @ParameterizedTest
  @CsvSource({"ALL_GATHER, 16, PAT", "REDUCE_SCATTER, 64, PAT", "ALL_GATHER, 2, OneShot"})
  void smallDataTakeFewMessages(Operation operation, int hosts, String algorithm) {
    AlgorithmChoice choice =
        new AlgorithmSelector(costs(hosts, 1), AlgorithmFilter.ALL)
            .choose(operation, 4096, DataType.INT8, RedOp.SUM);
    assertEquals(algorithm, choice.algorithm().label());
  }

  /** Where hosts have several ranks, those of one host also send to each other through memory. */
  @Test
  void patIsForAnyRanksOfHosts() {
    for (Operation operation : Operation.collectives()) {
      boolean both = operation == Operation.ALL_GATHER || operation == Operation.REDUCE_SCATTER;
      assertEquals(both, costs(4, 1).algorithms(operation).contains(Algorithm.PAT));
      assertEquals(both, costs(4, 2).algorithms(operation).contains(Algorithm.PAT));
    }
  }

  /** Of 8 ranks on 2 hosts in order 1, 2 and 4 send over the network; in turns always 4. */
  @Test
  void aHostSendsMoreOfPatThanOfRings() {
    assertEquals(7.0 / 8, new RankPlacement(8, 1, /* carried= */ true).sentByPat());
    assertEquals((4 + 2 * 2 + 4) / 8.0, new RankPlacement(2, 4, /* carried= */ true).sentByPat());
    RankPlacement turns =
        new RankPlacement(
            List.of(List.of(0, 2, 4, 6), List.of(1, 3, 5, 7)), true, 1, false, "Socket");
    assertEquals(4 * 7 / 8.0, turns.sentByPat());
  }

  /** Half of the data for each neighbour in each of the two trees; from a root for each child. */
  @Test
  void aHostSendsHalfOfTheDataAlongEachEdgeOfTheTrees() {
    for (int hosts = 2; hosts <= 100; hosts++) {
      double most = 0;
      double fewest = Double.POSITIVE_INFINITY;
      for (int host = 0; host < hosts; host++) {
        double neighbours = 0;
        for (int tree = 0; tree < 2; tree++) {
          DoubleBinaryTree.Place place = DoubleBinaryTree.place(hosts, host, tree);
          neighbours +=
              IntStream.of(place.up(), place.down0(), place.down1())
                  .filter(other -> other != DoubleBinaryTree.NONE)
                  .count();
        }
        most = Math.max(most, neighbours / 2);
        fewest = Math.min(fewest, neighbours / 2);
      }
      assertEquals(most, NetCostModel.treeSent(Operation.ALL_REDUCE, hosts), hosts + " hosts");
      for (Operation operation : List.of(Operation.BROADCAST, Operation.REDUCE)) {
        double rooted = NetCostModel.treeSent(operation, hosts);
        assertTrue(rooted >= fewest && rooted <= most, operation + " of " + hosts + " hosts");
      }
    }
  }

  /** Between two hosts trees send the data once; a ring of many ranks, nearly twice. */
  @ParameterizedTest
  @CsvSource({"1", "2", "4", "8"})
  void largeDataOfTwoHostsTakeTreesRatherThanRings(int ranksAHost) {
    AlgorithmSelector selector =
        new AlgorithmSelector(costs(2, ranksAHost), AlgorithmFilter.parse("Ring,Tree", ""));
    for (long bytes = 8; bytes <= 1L << 30; bytes *= 2) {
      AlgorithmChoice choice =
          selector.choose(Operation.ALL_REDUCE, bytes, DataType.INT8, RedOp.SUM);
      assertEquals(Algorithm.TREE, choice.algorithm(), bytes + " bytes");
    }
  }

  /** A ring passes every host one after the other, a tree a logarithm of them. */
  @ParameterizedTest
  @CsvSource({"2, 2", "2, 4", "4, 4", "64, 1", "64, 8"})
  void smallDataOfOneRankTakeTrees(int hosts, int ranksAHost) {
    for (Operation operation : List.of(Operation.BROADCAST, Operation.REDUCE)) {
      CostModel costs = costs(hosts, ranksAHost);
      AlgorithmSelector selector = new AlgorithmSelector(costs, AlgorithmFilter.ALL);
      assertEquals(
          Algorithm.TREE, selector.choose(operation, 4096, DataType.INT8, RedOp.SUM).algorithm());
      double ring = costs.microseconds(operation, Algorithm.RING, Protocol.SIMPLE, 1 << 20);
      double tree = costs.microseconds(operation, Algorithm.TREE, Protocol.SIMPLE, 1 << 20);
      assertEquals(hosts >= 64, tree < ring);
    }
  }

  /** All ways by which every part goes once from host to host are bound by the same bytes. */
  @Test
  void largeDataAreBoundByWhatAHostSends() {
    CostModel costs = costs(4, 1);
    long bytes = 1L << 30;
    double ring = microseconds(costs, Algorithm.RING, bytes);
    for (Algorithm algorithm : List.of(Algorithm.PAT, Algorithm.ONE_SHOT)) {
      assertEquals(1, microseconds(costs, algorithm, bytes) / ring, 0.1, algorithm.label());
    }
  }

  /** Without being named, only where it saves a quarter of what a ring sends between hosts. */
  @ParameterizedTest
  @CsvSource({"2, 2, true", "2, 8, true", "3, 3, true", "3, 2, false", "4, 8, false"})
  void largeDataOfAGridGoAlongTheRails(int hosts, int ranksAHost, boolean unasked) {
    AlgorithmSelector selector =
        new AlgorithmSelector(costs(hosts, ranksAHost), AlgorithmFilter.ALL);
    for (Operation operation : Operation.collectives()) {
      Algorithm large = selector.choose(operation, 1L << 26, DataType.INT8, RedOp.SUM).algorithm();
      boolean has = Algorithm.HIERARCHICAL.has(operation);
      assertEquals(
          has && unasked, large == Algorithm.HIERARCHICAL, operation.label() + " by " + large);
      assertEquals(
          has, costs(hosts, ranksAHost).algorithms(operation).contains(Algorithm.HIERARCHICAL));
      assertEquals("", costs(hosts, ranksAHost).lacks(operation));
    }
  }

  @Test
  void otherHostsHaveNoRails() {
    RankPlacement uneven =
        new RankPlacement(List.of(List.of(0, 1), List.of(2)), true, 1, false, "Socket");
    RankPlacement one = new RankPlacement(1, 4, /* carried= */ true);
    RankPlacement single = new RankPlacement(4, 1, /* carried= */ true);
    for (RankPlacement spread : List.of(uneven, one, single)) {
      CostModel costs = new NetCostModel(4, spread);
      for (Operation operation : Operation.collectives()) {
        assertFalse(costs.algorithms(operation).contains(Algorithm.HIERARCHICAL));
        assertEquals(
            Algorithm.HIERARCHICAL.has(operation) && spread.hosts() > 1,
            costs.lacks(operation).startsWith("Hierarchical needs "));
      }
    }
  }

  private static double microseconds(CostModel costs, Algorithm algorithm, long bytes) {
    return costs.microseconds(Operation.ALL_GATHER, algorithm, Protocol.SIMPLE, bytes);
  }
}
