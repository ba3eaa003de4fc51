package org.nccl4j.api.plan.algorithm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
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
import org.nccl4j.topo.TopoSettings;

class GpuNetCostModelTest {
  private static CostModel costs(int hosts, int ranksAHost, int channels, boolean lines) {
    return costs(hosts, ranksAHost, channels, lines, /* late= */ false);
  }

  private static CostModel costs(
      int hosts, int ranksAHost, int channels, boolean lines, boolean late) {
    return new CommunicatorProfile(
            hosts * ranksAHost,
            Device.Kind.CUDA,
            "NVIDIA H200",
            false,
            false,
            new RankPlacement(hosts, ranksAHost, /* carried= */ true, channels, lines)
                .withLate(late),
            Optional.empty(),
            Optional.empty())
        .costs();
  }

  private static AlgorithmChoice choose(CostModel costs, Operation operation, long bytes) {
    return choose(costs, AlgorithmFilter.ALL, operation, bytes);
  }

  private static AlgorithmChoice choose(
      CostModel costs, AlgorithmFilter filter, Operation operation, long bytes) {
    return new AlgorithmSelector(costs, filter)
        .choose(operation, bytes, DataType.FLOAT32, RedOp.SUM);
  }

  /** One host of ranks that reach each other over the network alone, too. */
  @ParameterizedTest
  @CsvSource({"1, 4", "2, 2", "2, 8", "5, 1", "16, 8"})
  void oneFlightOrTreesForSmallWhatSendsLeastForLarge(int hosts, int ranksAHost) {
    int ranks = hosts * ranksAHost;
    for (boolean lines : new boolean[] {false, true}) {
      CostModel costs = costs(hosts, ranksAHost, 2, lines);
      for (Operation operation : Operation.collectives()) {
        AlgorithmChoice large = choose(costs, operation, 1L << 30);
        boolean byTree = hosts == 2 && operation == Operation.ALL_REDUCE;
        assertEquals(byTree ? Algorithm.TREE : Algorithm.RING, large.algorithm());
        assertEquals(Protocol.SIMPLE, large.protocol());
        assertEquals(2, costs.channels(operation, large, 1L << 30));
        AlgorithmChoice small = choose(costs, operation, 8);
        boolean tree = operation.isRooted() && hosts > 1 && ranksAHost > 1;
        Algorithm many = Algorithm.PAT.has(operation) ? Algorithm.PAT : Algorithm.TREE;
        Algorithm few = tree ? Algorithm.TREE : Algorithm.ONE_SHOT;
        assertEquals(ranks <= 33 ? few : many, small.algorithm(), operation.label());
        assertEquals(
            lines && small.algorithm() != Algorithm.PAT ? Protocol.LL : Protocol.SIMPLE,
            small.protocol());
        assertEquals(1, costs.channels(operation, small, 8));
      }
    }
  }

  /** With one rank a host, where one shot has too many messages; rings carry more bandwidth. */
  @Test
  void treesOfAllRanksForFewBytesOfManyHosts() {
    for (int hosts : new int[] {2, 3, 40, 64, 65, 512, 600}) {
      CostModel costs = costs(hosts, 1, 2, /* lines= */ true);
      for (Operation operation : Operation.collectives()) {
        // A slot among 600 ranks has no room for 300 pieces.
        boolean has = hosts <= 512 && Algorithm.PAT.has(operation);
        assertEquals(has, costs.algorithms(operation).contains(Algorithm.PAT), hosts + " hosts");
        AlgorithmChoice small = choose(costs, operation, hosts << 10);
        assertEquals(has && hosts > 33, small.algorithm() == Algorithm.PAT, operation.label());
        AlgorithmChoice large = choose(costs, operation, 1L << 30);
        assertNotEquals(Algorithm.PAT, large.algorithm(), operation.label());
        AlgorithmChoice named =
            choose(costs, AlgorithmFilter.parse("PAT", ""), operation, 1L << 20);
        assertEquals(has, named.algorithm() == Algorithm.PAT, operation.label());
        assertEquals(has ? Protocol.SIMPLE : named.protocol(), named.protocol());
      }
    }
    assertTrue(costs(8, 8, 2, true).algorithms(Operation.ALL_GATHER).contains(Algorithm.PAT));
    assertFalse(costs(2, 256, 2, true).algorithms(Operation.ALL_GATHER).contains(Algorithm.PAT));
  }

  /** Slots of late connections are as those of one host: their 32 KiB hold 2,048 pieces. */
  @ParameterizedTest
  @CsvSource({"64, 8, true", "128, 8, true", "512, 8, true", "513, 8, false", "2048, 1, true"})
  void lateConnectionsHavePatAmongMoreRanks(int hosts, int ranksAHost, boolean has) {
    CostModel late = costs(hosts, ranksAHost, 16, /* lines= */ false, /* late= */ true);
    assertEquals(has, late.algorithms(Operation.ALL_GATHER).contains(Algorithm.PAT));
    CostModel all = costs(hosts, ranksAHost, 16, /* lines= */ false);
    boolean few = hosts * ranksAHost <= 512;
    assertEquals(few, all.algorithms(Operation.ALL_GATHER).contains(Algorithm.PAT));
    if (has) {
      long bytes = 64L * hosts * ranksAHost;
      assertEquals(Algorithm.PAT, choose(late, Operation.ALL_GATHER, bytes).algorithm());
    }
  }

  /** On hosts with several ranks too, where NCCL's model has it if NCCL_PAT_ENABLE is 1. */
  @ParameterizedTest
  @CsvSource({"4, 1", "2, 2"})
  void settingsForbidTreesOfAllRanks(int hosts, int ranksAHost) {
    for (String value : new String[] {"0", "1", "2"}) {
      TopoSettings settings = TopoSettings.parse(Map.of("NCCL_PAT_ENABLE", value));
      CostModel costs =
          new CommunicatorProfile(
                  4,
                  Device.Kind.CUDA,
                  "Other",
                  false,
                  false,
                  new RankPlacement(hosts, ranksAHost, /* carried= */ true, 2, /* lines= */ false),
                  Optional.of(TopologyCostModelTest.topology(hosts, ranksAHost, 90, 0, settings)),
                  Optional.empty())
              .costs();
      List<Algorithm> algorithms = costs.algorithms(Operation.ALL_GATHER);
      assertEquals(!value.equals("0"), algorithms.contains(Algorithm.PAT), value);
    }
  }

  /** LL costs bandwidth, and is left for Simple once. */
  @Test
  void linesAreForFewBytes() {
    CostModel costs = costs(2, 1, 2, /* lines= */ true);
    for (Operation operation : Operation.collectives()) {
      boolean simple = false;
      for (long bytes = 8; bytes <= 1L << 30; bytes *= 2) {
        Protocol protocol = choose(costs, operation, bytes).protocol();
        assertTrue(protocol == Protocol.SIMPLE || !simple, operation.label() + " " + bytes);
        assertTrue(bytes > 1 << 10 || protocol == Protocol.LL, operation.label() + " " + bytes);
        assertTrue(bytes < 1 << 20 || protocol != Protocol.LL, operation.label() + " " + bytes);
        simple = protocol == Protocol.SIMPLE;
      }
    }
    assertTrue(costs.smallSendBytes(Operation.SEND) >= 1 << 10);
    assertEquals(Protocol.LL, costs.smallSendProtocol());
    assertTrue(costs.lineSendBytes(Operation.SEND) < 0, "LL128 is not carried");
  }

  @Test
  void whatTheUserNamesIsTakenAsFarAsItIsCarried() {
    CostModel lines = costs(2, 4, 3, /* lines= */ true);
    AlgorithmChoice named =
        choose(lines, AlgorithmFilter.parse("oneshot", "LL"), Operation.ALL_GATHER, 1 << 20);
    assertEquals(Protocol.LL, named.protocol());
    assertEquals(Algorithm.ONE_SHOT, named.algorithm());
    CostModel costs = costs(2, 4, 3, /* lines= */ false);
    assertEquals(List.of(Protocol.SIMPLE), costs.protocols());
    assertTrue(costs.smallSendBytes(Operation.SEND) < 0);
    AlgorithmChoice choice =
        choose(costs, AlgorithmFilter.parse("twoshot", "LL128"), Operation.ALL_GATHER, 1 << 20);
    assertEquals(Protocol.SIMPLE, choice.protocol());
    assertEquals(3, costs.channels(Operation.ALL_GATHER, choice, 1 << 20));
  }

  /** No GPU has run the kernel yet; those who name it get it, with a time between the others'. */
  @Test
  void gpusOfEvenHostsHaveTheHierarchicalWayWhereItIsAskedFor() {
    RankPlacement even = new RankPlacement(2, 8, true, 4, false);
    CostModel costs = new GpuNetCostModel(16, even, Optional.empty());
    for (Operation operation : Operation.collectives()) {
      assertEquals(
          Algorithm.HIERARCHICAL.has(operation),
          costs.algorithms(operation).contains(Algorithm.HIERARCHICAL));
      assertEquals("", costs.lacks(operation));
    }
    double hierarchical =
        costs.microseconds(
            Operation.ALL_GATHER, Algorithm.HIERARCHICAL, Protocol.SIMPLE, 256 << 20);
    assertTrue(hierarchical >= CostModel.ONLY_WHERE_ASKED);
    double ring =
        costs.microseconds(Operation.ALL_GATHER, Algorithm.RING, Protocol.SIMPLE, 256 << 20);
    assertTrue(CostModel.predicted(hierarchical) < ring);
    AlgorithmFilter named = AlgorithmFilter.parse("Hierarchical", "");
    AlgorithmChoice choice =
        new AlgorithmSelector(costs, named)
            .choose(Operation.ALL_GATHER, 1 << 20, DataType.INT8, RedOp.SUM);
    assertEquals(Algorithm.HIERARCHICAL, choice.algorithm());
  }

  /** Between two hosts a tree sends the data once, between three one and a half times. */
  @ParameterizedTest
  @CsvSource({"2, 1, 1", "2, 4, 1", "3, 1, 1.5", "3, 4, 1.5", "4, 1, 2", "9, 8, 2"})
  void treesSendAsOnTheHostDevice(int hosts, int ranksAHost, double sent) {
    CostModel costs = costs(hosts, ranksAHost, 2, /* lines= */ false);
    long bytes = 1 << 30;
    double slope =
        costs.microseconds(Operation.ALL_REDUCE, Algorithm.TREE, Protocol.SIMPLE, bytes)
            - costs.microseconds(Operation.ALL_REDUCE, Algorithm.TREE, Protocol.SIMPLE, 0);
    double near = ranksAHost > 1 ? 1 : 0;
    assertEquals(bytes * (sent / 2.5e3 + (near + sent) / 8e3), slope, 1e-6 * slope);
  }
}
