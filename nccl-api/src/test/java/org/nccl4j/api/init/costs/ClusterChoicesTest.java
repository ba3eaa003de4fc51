package org.nccl4j.api.init.costs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.FakeKernels;
import org.nccl4j.api.plan.NvlsAccess;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.api.plan.algorithm.ChoicesTest;
import org.nccl4j.api.plan.algorithm.CtaLimits;
import org.nccl4j.api.plan.algorithm.TunerHook;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.CostModel;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.path.PeerStatus;
import org.nccl4j.topo.xml.TopologyXml;

/** A cluster's choices are those of the planner of a communicator over it. */
class ClusterChoicesTest {
  private static final Path DGX =
      Path.of("../nccl-topo/src/test/resources/org/nccl4j/topo/machines/dgx-h100.xml");
  private static final ConnectionLayout LAYOUT = new ConnectionLayout(1 << 10, 1 << 10, 1 << 12);

  private static Cluster cluster(Settings settings, int machines) {
    ClusterOptions options =
        new ClusterOptions(settings.topology(), PeerStatus.ALLOWED, /* collNet= */ false);
    return Cluster.of(TopologyXml.readSystem(DGX), machines, ClusterChoices.searching(options));
  }

  private static ClusterChoices.Network network(boolean direct) {
    return new ClusterChoices.Network("IB", direct, cards -> Math.min(cards, 3), cards -> 2);
  }

  private static List<Operation> operations() {
    List<Operation> operations = new ArrayList<>(Operation.ofAllRanks());
    operations.add(Operation.SEND);
    return operations;
  }

  @ParameterizedTest
  @CsvSource({
    "1, true, '', ''",
    "2, true, '', ''",
    "2, false, '', ''",
    "4, false, '', ''",
    "4, false, 'alltoall:rails', ''",
    "4, false, 'ring;sendrecv:copyengine', LL",
    "64, true, '', ''",
  })
  void thePlannerOfSuchRanksChoosesTheSame(
      int machines, boolean direct, String algorithms, String protocols) {
    Settings settings =
        Settings.ofProcess(
            Map.of("NCCL_ALGO", algorithms, "NCCL_PROTO", protocols, "NCCL_TUNER_PLUGIN", "none"));
    Cluster cluster = cluster(settings, machines);
    ClusterChoices choices = ClusterChoices.of(settings, cluster, "", network(direct));
    CommunicatorProfile ranks =
        ClusterChoices.profile(settings, ClusterChoices.Members.of(cluster), "", network(direct));
    FakeKernels kernels = new FakeKernels();
    kernels.copyEngines = true;
    Planner.Rules rules =
        new Planner.Rules(
            AlgorithmFilter.parse(algorithms, protocols),
            TunerHook.NONE,
            new CtaLimits(1, 64, 64),
            new InfoLog(settings, "rank"));
    try (WindowRegistry windows = ChoicesTest.windows(ranks)) {
      Planner planner =
          new Planner(
              kernels, new Planner.Place(0, ranks, LAYOUT, NvlsAccess.NONE, windows), rules);
      for (Operation operation : operations()) {
        for (long count = 1; count <= 1 << 28; count *= 16) {
          ClusterChoices.Choice choice = choices.choose(operation, count);
          assertEquals(planner.choice(operation, count, DataType.FLOAT32), choice.chosen());
          assertEquals(count * 4 * operation.wholes(ranks.nRanks()), choice.bytes());
          if (operation.isCollective()) {
            planner.prepare(CallShape.of(operation, DataType.FLOAT32, RedOp.SUM, 0), count);
            assertEquals(kernels.last().collective().nChannels(), choice.channels());
          }
        }
      }
    }
  }

  /** Cards that store into GPUs leave no lines; a machine alone has no network. */
  @Test
  void theRanksAreThoseOfTheTopology() {
    Settings settings = Settings.ofProcess(Map.of());
    CommunicatorProfile alone =
        ClusterChoices.profile(
            settings, ClusterChoices.Members.of(cluster(settings, 1)), "", network(true));
    assertTrue(alone.reach() && alone.nvlink() && alone.spread().lines());
    assertFalse(alone.spread().carried());
    assertEquals(ConnectionLayout.CHANNELS, alone.spread().channels());
    assertEquals(ConnectionLayout.CHANNELS, alone.spread().pairChannels());
    for (boolean direct : new boolean[] {false, true}) {
      CommunicatorProfile several =
          ClusterChoices.profile(
              settings, ClusterChoices.Members.of(cluster(settings, 3)), "H100", network(direct));
      assertEquals(24, several.nRanks());
      assertFalse(several.reach() || several.nvlink());
      assertEquals(!direct, several.spread().lines());
      assertEquals(3, several.spread().channels());
      assertEquals(2, several.spread().pairChannels());
      assertEquals("3x8/IB", several.inTables());
      assertEquals("H100", several.model());
      assertEquals(List.of(8, 9, 10, 11, 12, 13, 14, 15), several.spread().ranks().get(1));
    }
    Settings far = Settings.ofProcess(Map.of("NCCL_NET_GDR_LEVEL", "LOC"));
    assertTrue(
        ClusterChoices.profile(far, ClusterChoices.Members.of(cluster(far, 2)), "", network(true))
            .spread()
            .lines());
  }

  /** Where the topology shows it; not with fewer than three GPUs of a machine, and not if off. */
  @Test
  void multicastCountsWhereItIsAskedFor() {
    for (int machines : new int[] {1, 4}) {
      Settings settings = Settings.ofProcess(Map.of());
      Cluster cluster = cluster(settings, machines);
      ClusterChoices.Members without = ClusterChoices.Members.of(cluster);
      ClusterChoices.Members with =
          new ClusterChoices.Members(
              cluster.topology(), without.hosts(), without.machines(), /* multicast= */ true);
      Algorithm expected = machines == 1 ? Algorithm.NVLS : Algorithm.NVLS_TREE;
      assertEquals(expected, algorithm(settings, with));
      assertFalse(isOfSwitch(algorithm(settings, without)));
      Settings off = Settings.ofProcess(Map.of("NCCL_NVLS_ENABLE", "0"));
      assertFalse(isOfSwitch(algorithm(off, with)));
    }
  }

  /** Two GPUs of a machine use the switch where a setting asks for it. */
  @Test
  void twoGpusUseTheSwitchIfASettingAsksForIt() {
    Settings free = Settings.ofProcess(Map.of());
    Settings asking = Settings.ofProcess(Map.of("NCCL_ALGO", "NVLS"));
    for (Settings settings : List.of(free, asking)) {
      Cluster cluster = cluster(settings, 1);
      ClusterChoices.Members two =
          new ClusterChoices.Members(
              cluster.topology(),
              List.of(List.of(0, 1)),
              List.of(cluster.whole()),
              /* multicast= */ true);
      assertEquals(settings == asking, isOfSwitch(algorithm(settings, two)));
    }
  }

  private static boolean isOfSwitch(Algorithm algorithm) {
    return algorithm == Algorithm.NVLS || algorithm == Algorithm.NVLS_TREE;
  }

  private static Algorithm algorithm(Settings settings, ClusterChoices.Members members) {
    return ClusterChoices.of(settings, members, "", network(true))
        .choose(Operation.ALL_REDUCE, 1 << 26)
        .chosen()
        .algorithm();
  }

  /** Of what a choice takes, the part without bytes is not shared. */
  @Test
  void sharedLinksTakeLonger() {
    Settings settings = Settings.ofProcess(Map.of());
    ClusterChoices choices = ClusterChoices.of(settings, cluster(settings, 4), "", network(true));
    for (Operation operation : operations()) {
      for (long count : new long[] {1, 1 << 10, 1 << 24}) {
        ClusterChoices.Choice choice = choices.choose(operation, count);
        double alone = choice.chosen().microseconds();
        assertEquals(alone, choices.microseconds(choice, 1), alone * 1e-9, operation.key());
        double shared = choices.microseconds(choice, 4);
        assertTrue(
            shared >= alone && shared <= 4 * alone, operation.key() + " " + alone + " " + shared);
        assertTrue(count < 1 << 24 || shared > 3.5 * alone, operation + ": " + shared);
      }
    }
  }

  /** Large sends go in slots, which begin later than the lines of small ones. */
  @Test
  void thePartWithoutBytesIsTheChosenWays() {
    Settings free = Settings.ofProcess(Map.of());
    Settings slots = Settings.ofProcess(Map.of("NCCL_P2P_LL_THRESHOLD", "0"));
    List<Double> shared = new ArrayList<>();
    for (Settings settings : List.of(free, slots)) {
      ClusterChoices choices = ClusterChoices.of(settings, cluster(settings, 1), "", network(true));
      ClusterChoices.Choice send = choices.choose(Operation.SEND, 1 << 24);
      assertEquals(Protocol.SIMPLE, send.chosen().protocol());
      shared.add(choices.microseconds(send, 4));
    }
    assertEquals(shared.get(1), shared.get(0));
  }

  /** Ranks on one GPU of each machine, and on machines with different numbers of ranks. */
  @Test
  void theRanksOfAGroupAreThoseOfItsHosts() {
    Settings settings = Settings.ofProcess(Map.of());
    Cluster cluster = cluster(settings, 2);
    List<List<Integer>> hosts = List.of(List.of(0, 1, 2, 3, 4), List.of(5, 6, 7, 8, 9, 10, 11));
    CommunicatorProfile ranks =
        ClusterChoices.profile(
            settings,
            new ClusterChoices.Members(cluster.topology(), hosts, List.of(cluster.whole()), false),
            "",
            network(true));
    assertEquals(12, ranks.nRanks());
    assertEquals(hosts, ranks.spread().ranks());
    assertTrue(ranks.spread().carried() && ranks.spread().hasRails());
    assertFalse(ranks.reach());
  }

  /** Other ways that the settings allow, and the one that would be next. */
  @Test
  void waysBesideTheChoiceAreListed() {
    Settings settings = Settings.ofProcess(Map.of());
    ClusterChoices choices = ClusterChoices.of(settings, cluster(settings, 512), "", network(true));
    ClusterChoices.Choice sum = choices.choose(Operation.ALL_REDUCE, 1 << 20);
    assertEquals(Algorithm.TREE, sum.chosen().algorithm());
    assertEquals(Algorithm.HIERARCHICAL, sum.nextBest().orElseThrow().algorithm());
    assertEquals(
        sum.nextBest().orElseThrow().microseconds() - sum.chosen().microseconds(), sum.saves());
    assertEquals("topology, NCCL's tables", sum.source());
    ClusterChoices.Choice exchange = choices.choose(Operation.ALL_TO_ALL, 1);
    assertEquals(Algorithm.PAIRWISE, exchange.chosen().algorithm());
    assertEquals(Algorithm.RAILS, exchange.ways().get(1).algorithm());
    double rails = exchange.ways().get(1).microseconds();
    assertTrue(rails > CostModel.ONLY_WHERE_ASKED, "not measured on GPUs");
    assertTrue(CostModel.predicted(rails) < exchange.chosen().microseconds());
    assertTrue(exchange.nextBest().isEmpty());
    assertEquals(0, exchange.saves());
    assertEquals("formula of messages and bytes, topology's network", exchange.source());
    assertEquals(
        Set.of(Algorithm.PAIRWISE), Set.of(choices.choose(Operation.SEND, 1).chosen().algorithm()));
  }
}
