package org.nccl4j.api.plan.cost;

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
import org.nccl4j.api.plan.algorithm.AlgorithmSelector;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.api.settings.ScaleSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.connect.AlignedGraph;
import org.nccl4j.topo.search.GraphKind;

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
        boolean two = hosts == 2;
        Algorithm most =
            two && operation == Operation.ALL_REDUCE
                ? Algorithm.TREE
                : two && !operation.isRooted() ? Algorithm.HIERARCHICAL : Algorithm.RING;
        assertEquals(most, large.algorithm(), operation.label());
        assertEquals(Protocol.SIMPLE, large.protocol());
        assertEquals(2, costs.channels(operation, large, 1L << 30));
        AlgorithmChoice small = choose(costs, operation, 8);
        boolean tree = operation.isRooted() && hosts > 1 && ranksAHost > 1;
        Algorithm many = Algorithm.PAT.has(operation) ? Algorithm.PAT : Algorithm.TREE;
        // One message to the other host, where a rank sends eight in one shot.
        boolean rails = ranksAHost > 4 && Algorithm.PAT.has(operation);
        Algorithm one = rails ? Algorithm.HIERARCHICAL : Algorithm.ONE_SHOT;
        Algorithm few = tree ? Algorithm.TREE : one;
        assertEquals(ranks <= 33 ? few : many, small.algorithm(), operation.label());
        assertEquals(
            lines && small.algorithm().has(Protocol.LL) ? Protocol.LL : Protocol.SIMPLE,
            small.protocol());
        assertEquals(1, costs.channels(operation, small, 8));
      }
    }
  }

  /** Kernels take every pair of ranks in one shot, so creation has to connect all. */
  @Test
  void oneShotIsForRanksThatAreAllConnected() {
    for (int ranks = 2; ranks <= 72; ranks++) {
      boolean late =
          ScaleSettings.connectsLate(Settings.ofProcess(Map.of()), Device.Kind.CUDA, ranks);
      List<Algorithm> algorithms =
          costs(ranks, 1, 2, /* lines= */ false).algorithms(Operation.ALL_REDUCE);
      assertEquals(!late, algorithms.contains(Algorithm.ONE_SHOT), ranks + " ranks");
      assertEquals(ranks > 33, late, "the kernels have room for 32 peers");
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

  private static double hierarchical(CostModel costs, Operation operation, long bytes) {
    return costs.microseconds(operation, Algorithm.HIERARCHICAL, Protocol.SIMPLE, bytes);
  }

  /** The longest chain of hand-overs from leg to leg of the kernel, all ranks alike. */
  private static double chain(boolean sums, boolean gathers, int hosts, int ranksAHost) {
    int n = hosts * ranksAHost;
    double[] ends = new double[sums && gathers ? 2 * n - 1 : n];
    for (int leg = 1; leg < ends.length; leg++) {
      boolean reduces = sums && leg < n;
      int number = sums && !reduces ? leg - n + 1 : leg;
      int place = number % ranksAHost;
      boolean rail = number >= ranksAHost && place == (reduces ? ranksAHost - 1 : 0);
      double byHost = place > 0 ? ends[leg - 1] + 3 : 0;
      double byRail = rail ? ends[leg - ranksAHost] + 35 + 4 : 0;
      ends[leg] = Math.max(ends[leg - 1], Math.max(byHost, byRail));
    }
    return ends[ends.length - 1];
  }

  /**
   * Flights along the rails, and steps of the host's ring that do not go on meanwhile; and the
   * bytes of a host's cards, or of one card of each GPU together, and of a rank.
   */
  @ParameterizedTest
  @CsvSource({
    "2, 2, 42, 0.5, 0.75",
    "2, 8, 60, 0.5, 0.9375",
    "4, 8, 138, 0.75, 0.96875",
    "64, 8, 2478, 0.984375, 0.998046875",
    "2, 32, 186, 0.5, 0.984375"
  })
  void hierarchicalTakesTheKernelsChainOfStepsAndItsBytes(
      int hosts, int ranksAHost, double steps, double sent, double moved) {
    CostModel costs = costs(hosts, ranksAHost, 2, /* lines= */ false);
    for (Operation operation : Operation.collectives()) {
      if (Algorithm.HIERARCHICAL.has(operation)) {
        int turns = operation == Operation.ALL_REDUCE ? 2 : 1;
        assertEquals(
            turns * steps,
            chain(operation.reduces(), operation != Operation.REDUCE_SCATTER, hosts, ranksAHost));
        double least = 4.5 + turns * steps;
        assertEquals(4.0 / 3 * least, hierarchical(costs, operation, 0), 1e-6 * least);
        double bytes = 1 << 30;
        double carried = turns * (sent * bytes / 2.5e3 + moved * bytes / 8e3);
        assertEquals(
            4.0 / 3 * (least + carried), hierarchical(costs, operation, 1 << 30), 1e-6 * carried);
      }
    }
  }

  /** A hop along a ring takes as long in the hierarchical way as in the ring. */
  @Test
  void onKnownHostsItsStepsAreThoseOfRings() {
    CommTopology topology = TopologyCostModelTest.topology(4, 8, 90, 18);
    NcclCosts nccl = new NcclCosts(topology);
    for (long bytes : new long[] {64, 1 << 10, 1 << 20}) {
      for (Operation operation : List.of(Operation.ALL_REDUCE, Operation.ALL_GATHER)) {
        int turns = operation == Operation.ALL_REDUCE ? 2 : 1;
        double slope =
            1
                / (1e3
                    * topology
                        .costs()
                        .cost(operation, Algorithm.RING, Protocol.SIMPLE)
                        .bandwidth());
        double ring = nccl.microseconds(operation, Algorithm.RING, Protocol.SIMPLE, bytes);
        double steps = nccl.chain(operation, turns * 28, turns * 3, bytes);
        assertEquals(ring, steps + slope * bytes, 1e-5 * ring, operation + " " + bytes);
      }
    }
  }

  /** One-shot leads over connections of all pairs, which have fewer channels than rings. */
  @Test
  void onlyOneShotIsHeldToTheChannelsOfAllPairs() {
    long bytes = 1L << 30;
    CommTopology topology = TopologyCostModelTest.topology(3, 8, 90, 18);
    RankPlacement many = new RankPlacement(3, 8, true, 20, false);
    CostModel all = new GpuNetCostModel(24, many, Optional.of(topology), false);
    CostModel few = new GpuNetCostModel(24, many.withPairChannels(2), Optional.of(topology), false);
    for (Algorithm algorithm : all.algorithms(Operation.ALL_GATHER)) {
      AlgorithmChoice choice = new AlgorithmChoice(algorithm, Protocol.SIMPLE, 0);
      boolean pairs = algorithm == Algorithm.ONE_SHOT;
      assertEquals(pairs ? 2 : 20, few.channels(Operation.ALL_GATHER, choice, bytes));
      double before = all.microseconds(Operation.ALL_GATHER, algorithm, Protocol.SIMPLE, bytes);
      double after = few.microseconds(Operation.ALL_GATHER, algorithm, Protocol.SIMPLE, bytes);
      assertEquals(pairs, after > before, algorithm.label());
    }
    assertTrue(few.source().contains("20 channels, 2 between ranks that are no"), few.source());
    assertTrue(all.algorithms(Operation.ALL_GATHER).contains(Algorithm.ONE_SHOT));
  }

  /** Channels and slow cards, all of which the rails use, however many a rank has. */
  @Test
  void channelsAndCardsLimitItOnKnownHosts() {
    long bytes = 1L << 30;
    CommTopology topology = TopologyCostModelTest.topology(2, 8, 90, 18);
    for (int channels : new int[] {2, 10}) {
      RankPlacement spread = new RankPlacement(2, 8, true, channels, false);
      CostModel costs = new GpuNetCostModel(16, spread, Optional.of(topology), false);
      double slope =
          hierarchical(costs, Operation.ALL_GATHER, bytes)
              - hierarchical(costs, Operation.ALL_GATHER, 0);
      double expected = 4.0 / 3 * bytes * 15 / 16 / (channels * 5.2e3);
      assertEquals(expected, slope, 1e-4 * slope);
    }
    for (int gpus : new int[] {1, 2}) {
      CommTopology slow =
          TopologyCostModelTest.topology(2, gpus, 90, 18, 25_000, TopoSettings.defaults());
      AlignedGraph rings = slow.comm().of(GraphKind.RING);
      double network = rings.nChannels() * rings.bwInter();
      RankPlacement spread = new RankPlacement(2, gpus, true, 10, false);
      CostModel costs = new GpuNetCostModel(2 * gpus, spread, Optional.of(slow), false);
      double slope =
          hierarchical(costs, Operation.ALL_GATHER, bytes)
              - hierarchical(costs, Operation.ALL_GATHER, 0);
      assertEquals(4.0 / 3 * bytes / 2 / (network * 1e3), slope, 1e-4 * slope);
    }
    CommTopology oneEach = TopologyCostModelTest.topology(2, 2, 90, 18);
    assertTrue(oneEach.neighbourGigabytes() > 300, "18 NVLinks");
    assertTrue(TopologyCostModelTest.topology(2, 2, 90, 0).neighbourGigabytes() < 100, "PCIe");
    assertEquals(
        Double.POSITIVE_INFINITY, TopologyCostModelTest.topology(2, 1, 90, 0).neighbourGigabytes());
  }

  /**
   * Rings, trees and the like give out no more than their channels carry, whatever the cards could
   * take: a rank's share of an all-gather goes through 10 of them at 52 GB/s.
   */
  @Test
  void channelsLimitEveryWayOnKnownHosts() {
    long bytes = 1L << 30;
    CommTopology topology = TopologyCostModelTest.topology(2, 8, 90, 18);
    AlignedGraph ring = topology.comm().of(GraphKind.RING);
    assertTrue(ring.nChannels() * ring.bwInter() > 52, "the cards' GB/s");
    for (int channels : new int[] {2, 10}) {
      RankPlacement spread = new RankPlacement(2, 8, true, channels, false);
      CostModel costs = new GpuNetCostModel(16, spread, Optional.of(topology), false);
      double whole = bytes / (channels * 5.2e3);
      Map<Operation, Map<Algorithm, Double>> sent =
          Map.of(
              Operation.ALL_GATHER,
              Map.of(
                  Algorithm.RING,
                  15.0 / 16,
                  Algorithm.PAT,
                  15.0 / 16,
                  Algorithm.ONE_SHOT,
                  15.0 / 16),
              Operation.ALL_REDUCE,
              Map.of(Algorithm.RING, 30.0 / 16, Algorithm.TREE, 2.0, Algorithm.ONE_SHOT, 15.0),
              Operation.BROADCAST,
              Map.of(Algorithm.RING, 1.0, Algorithm.TREE, 1.5));
      sent.forEach(
          (operation, ways) ->
              ways.forEach(
                  (algorithm, share) -> {
                    double time = costs.microseconds(operation, algorithm, Protocol.SIMPLE, bytes);
                    assertTrue(time >= share * whole, operation + " " + algorithm + ": " + time);
                  }));
      double gather =
          costs.microseconds(Operation.ALL_GATHER, Algorithm.RING, Protocol.SIMPLE, bytes);
      double first = costs.microseconds(Operation.ALL_GATHER, Algorithm.RING, Protocol.SIMPLE, 0);
      assertEquals(15.0 / 16 * whole, gather - first, 1e-3 * whole);
    }
    CommTopology oneEach = TopologyCostModelTest.topology(4, 1, 90, 0);
    CostModel few =
        new GpuNetCostModel(
            4, new RankPlacement(4, 1, true, 2, false), Optional.of(oneEach), false);
    double time = few.microseconds(Operation.ALL_GATHER, Algorithm.PAT, Protocol.SIMPLE, bytes);
    assertTrue(time >= 0.75 * bytes / (2 * 5.2e3), "one rank a host: " + time);
  }

  /** Where hosts have as many ranks each; with a table of these ranks, only its times or a name. */
  @Test
  void gpusOfEvenHostsTakeTheHierarchicalWayUnasked() {
    RankPlacement even =
        new RankPlacement(
            List.of(List.of(0, 1, 2, 3), List.of(4, 5, 6, 7)), true, 4, false, "Socket");
    RankPlacement uneven =
        new RankPlacement(List.of(List.of(0, 1, 2, 3), List.of(4, 5, 6)), true, 4, false, "Socket");
    CostModel lacking = new GpuNetCostModel(7, uneven, Optional.empty(), false);
    assertTrue(lacking.lacks(Operation.ALL_GATHER).contains("these hosts have 3 to 4"));
    CommunicatorProfile facts =
        new CommunicatorProfile(
            8, Device.Kind.CUDA, "GPU", false, false, even, Optional.empty(), Optional.empty());
    CostModel costs = facts.costs();
    for (Operation operation : Operation.collectives()) {
      boolean has = Algorithm.HIERARCHICAL.has(operation);
      assertEquals(has, costs.algorithms(operation).contains(Algorithm.HIERARCHICAL));
      assertFalse(lacking.algorithms(operation).contains(Algorithm.HIERARCHICAL));
      assertEquals("", costs.lacks(operation));
    }
    long bytes = 1 << 20;
    assertEquals(Algorithm.HIERARCHICAL, choose(costs, Operation.ALL_GATHER, bytes).algorithm());
    assertEquals(
        Algorithm.RING,
        choose(costs, AlgorithmFilter.parse("^Hierarchical", ""), Operation.ALL_GATHER, bytes)
            .algorithm());
    String explained =
        new AlgorithmSelector(costs, AlgorithmFilter.ALL)
            .explain(Operation.ALL_GATHER, bytes, DataType.INT8);
    assertTrue(explained.contains("a third added as it is not measured between"), explained);
    assertTrue(explained.contains("chosen: Hierarchical Simple"), explained);
    String ring = "2x4/Socket AllGather Ring Simple 1024:100 1048576:9999999";
    CostModel table = facts.with(new TunedTable("times", "GPU", List.of(ring))).costs();
    assertTrue(hierarchical(table, Operation.ALL_GATHER, bytes) >= CostModel.ONLY_WHERE_ASKED);
    assertNotEquals(Algorithm.HIERARCHICAL, choose(table, Operation.ALL_GATHER, bytes).algorithm());
    AlgorithmFilter named = AlgorithmFilter.parse("Hierarchical", "");
    assertEquals(
        Algorithm.HIERARCHICAL, choose(table, named, Operation.ALL_GATHER, bytes).algorithm());
    String it = "2x4/Socket AllGather Hierarchical Simple 1024:100 1048576:77";
    CostModel both = facts.with(new TunedTable("times", "GPU", List.of(ring, it))).costs();
    assertEquals(77, hierarchical(both, Operation.ALL_GATHER, bytes));
    CostModel others =
        facts.with(new TunedTable("times", "GPU", List.of(ring.replace("2x4", "2x8")))).costs();
    assertEquals(
        hierarchical(costs, Operation.ALL_GATHER, bytes),
        hierarchical(others, Operation.ALL_GATHER, bytes));
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
