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
import org.nccl4j.api.plan.algorithm.CommunicatorProfile;
import org.nccl4j.api.plan.algorithm.CostModel;
import org.nccl4j.api.plan.algorithm.CtaLimits;
import org.nccl4j.api.plan.algorithm.TunerHook;
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
    CommunicatorProfile ranks = ClusterChoices.profile(settings, cluster, "", network(direct));
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
        ClusterChoices.profile(settings, cluster(settings, 1), "", network(true));
    assertTrue(alone.reach() && alone.nvlink() && alone.spread().lines());
    assertFalse(alone.spread().carried());
    assertEquals(ConnectionLayout.CHANNELS, alone.spread().channels());
    assertEquals(ConnectionLayout.CHANNELS, alone.spread().pairChannels());
    for (boolean direct : new boolean[] {false, true}) {
      CommunicatorProfile several =
          ClusterChoices.profile(settings, cluster(settings, 3), "H100", network(direct));
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
    assertTrue(ClusterChoices.profile(far, cluster(far, 2), "", network(true)).spread().lines());
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
