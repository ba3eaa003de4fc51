package org.nccl4j.topo.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.nccl4j.topo.CpuTime;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TestMachines;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.path.PeerStatus;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.search.GraphKind;
import org.nccl4j.topo.search.GraphValidator;
import org.nccl4j.topo.system.Node;
import org.nccl4j.topo.xml.XmlElement;

/** Machines of the tests, and what is to be made of them. */
class MachinesTest {
  private static Cluster cluster(String name, int machines, String... settings) {
    Map<String, String> values = new HashMap<>();
    for (String setting : settings) {
      values.put(setting.split("=")[0], setting.split("=")[1]);
    }
    return TestMachines.cluster(name, machines, values);
  }

  @ParameterizedTest
  @MethodSource("org.nccl4j.topo.TestMachines#names")
  void oneMachine(String name) throws IOException {
    check(name, 1);
  }

  @ParameterizedTest
  @MethodSource("org.nccl4j.topo.TestMachines#networked")
  void twoMachines(String name) throws IOException {
    check(name, 2);
  }

  private static void check(String name, int machines) throws IOException {
    Cluster cluster = cluster(name, machines);
    cluster.domains().forEach(GraphValidator::check);
    CommValidator.check(cluster.comm());
    String answer = Answer.of(cluster);
    String file = name + "-" + machines + ".txt";
    // -Dnccl4j.answers=FOLDER writes what would be expected, to look at before it is believed.
    String folder = System.getProperty("nccl4j.answers");
    if (folder != null) {
      Files.writeString(Path.of(folder, file), answer);
    }
    assertEquals(TestMachines.text("answers/" + file), answer);
  }

  @Test
  void aRackIsSearchedInSeconds() {
    Cluster rack = CpuTime.assertLess(Duration.ofSeconds(150), () -> cluster("gb200-nvl72", 2));
    assertEquals(144, rack.comm().shape().nRanks());
    rack.domains().forEach(GraphValidator::check);
    CommValidator.check(rack.comm());
  }

  @Test
  void fiveNodesMakeUnevenTrees() {
    for (int machines : new int[] {3, 5, 8, 13}) {
      CommValidator.check(cluster("dgx-a100", machines).comm());
      CommValidator.check(cluster("dgx-h100", machines).comm());
      CommValidator.check(cluster("pcie-8-intel", machines).comm());
    }
  }

  @Test
  void nvLinkOfTheDgx1LeadsThroughOneGpuAtMost() {
    Routes routes = cluster("dgx1-v100", 1).whole();
    assertEquals(PathType.NVB, path(routes, 0, 7));
    assertEquals(PathType.NVL, path(routes, 0, 4));
    Routes without = cluster("dgx1-v100", 1, "NCCL_NVB_DISABLE=1").whole();
    assertTrue(PathType.PHB.within(path(without, 0, 7)));
  }

  private static PathType path(Routes routes, int from, int to) {
    Node a = routes.machine().gpuOfRank(from).orElseThrow();
    Node b = routes.machine().gpuOfRank(to).orElseThrow();
    return routes.paths().path(a, b).type();
  }

  @Test
  void relaysAndDirectAccessFollowTheirSettings() {
    assertEquals(PathType.PXN, farthestNet("dgx-h100"));
    assertEquals(PathType.SYS, farthestNet("dgx-h100", "NCCL_PXN_DISABLE=1"));
    assertEquals(PathType.P2C, cluster("gb200-tray", 2).whole().paths().nearest(NodeType.NET));
    assertEquals(
        PathType.PHB,
        cluster("dgx-h100", 2, "NCCL_NET_GDR_LEVEL=LOC").whole().paths().nearest(NodeType.NET));
  }

  private static PathType farthestNet(String name, String... settings) {
    return cluster(name, 2, settings).whole().paths().farthest(NodeType.NET);
  }

  @Test
  void aSlowMiddleSplitsAMachine() {
    assertEquals(2, cluster("pcie-8-intel", 1).domains().size());
    assertEquals(1, cluster("pcie-8-intel", 1, "NCCL_NET_DISABLE_INTRA=1").domains().size());
  }

  @Test
  void withoutNetworkOneMachineIsAll() {
    assertThrows(TopologyException.class, () -> cluster("vm-4h100", 2));
    assertThrows(
        TopologyException.class,
        () -> cluster("pcie-2-amd", 1, "NCCL_SHM_DISABLE=1", "NCCL_P2P_DISABLE=1"));
    assertThrows(TopologyException.class, () -> cluster("dgx-h100", Integer.MAX_VALUE));
  }

  @Test
  void driversThatForbidPeersOverNvLinkAreReported() {
    ClusterOptions forbidden =
        new ClusterOptions(TopoSettings.defaults(), PeerStatus.FORBIDDEN, false);
    TopologyException e =
        assertThrows(
            TopologyException.class, () -> Cluster.of(TestMachines.read("dgx-h100"), 1, forbidden));
    assertTrue(e.getMessage().contains("NCCL_IGNORE_DISABLED_P2P"), e.getMessage());
    Cluster pcie = Cluster.of(TestMachines.read("pcie-2-amd"), 1, forbidden);
    assertEquals(1, pcie.domains().size());
  }

  @Test
  void channelLimitsAreKept() {
    assertEquals(4, cluster("dgx-h100", 2, "NCCL_MAX_NCHANNELS=4").comm().nChannels());
    assertEquals(40, cluster("dgx-h100", 2, "NCCL_MIN_NCHANNELS=40").comm().nChannels());
    assertEquals(0, cluster("dgx-h100", 1, "NCCL_NVLS_ENABLE=0").comm().nvlsChannels());
    assertEquals(16, cluster("dgx-h100", 1).comm().nvlsChannels());
    assertEquals(16, cluster("dgx-h100", 1, "NCCL_NVLS_NCHANNELS=0").comm().nvlsChannels());
    assertEquals(7, cluster("dgx-h100", 1, "NCCL_NVLS_NCHANNELS=7").comm().nvlsChannels());
  }

  @Test
  void collNetIsSearchedWhenAskedFor() {
    Cluster cluster =
        Cluster.of(
            TestMachines.read("dgx-h100"),
            2,
            new ClusterOptions(TopoSettings.defaults(), PeerStatus.ALLOWED, true));
    assertEquals(8, cluster.domains().get(0).of(GraphKind.COLLNET_DIRECT).nChannels());
    assertTrue(cluster.comm().collNet());
    cluster.domains().forEach(GraphValidator::check);
  }

  @Test
  void aGpuBelowANetworkCardIsRefusedIfItIsARank() {
    XmlElement system = TestMachines.read("pcie-2-amd");
    XmlElement cpu = system.children().get(0);
    XmlElement card = XmlElement.of("pci");
    card.set("busid", "0000:70:00.0").set("class", "0x020000");
    card.set("link_speed", "").set("link_width", "16");
    card.add(XmlElement.of("nic")).add(XmlElement.of("net").set("dev", 0));
    XmlElement hidden = cpu.children().get(0);
    cpu.remove(hidden);
    card.add(hidden);
    cpu.add(card);
    TopologyException e =
        assertThrows(TopologyException.class, () -> Cluster.of(system, 1, ClusterOptions.DEFAULT));
    assertTrue(e.getMessage().contains("below a network card"), e.getMessage());
    assertTrue(e.where().startsWith("pcie-2-amd.xml:"), e.where());
    hidden.child("gpu").orElseThrow().unset("rank");
    assertEquals(1, Cluster.of(system, 1, ClusterOptions.DEFAULT).comm().shape().nRanks());
  }

  @Test
  void blocksPerOperationBoundChannels() {
    assertEquals(3, cluster("dgx-h100", 2, "NCCL_MAX_CTAS=3").comm().nChannels());
    assertEquals(40, cluster("dgx-h100", 2, "NCCL_MIN_CTAS=40").comm().nChannels());
    TopologyException none =
        assertThrows(TopologyException.class, () -> cluster("dgx-h100", 2, "NCCL_MAX_CTAS=0"));
    assertTrue(none.getMessage().contains("a whole number from 1 to 64"), none.getMessage());
    // The most wins over the least.
    Cluster both = cluster("dgx-h100", 2, "NCCL_MIN_CTAS=40", "NCCL_MAX_CTAS=8");
    assertEquals(8, both.comm().nChannels());
    assertEquals(8, both.comm().nvlsChannels());
    int usual = cluster("dgx-h100", 2).comm().channelsPerPeer();
    assertEquals(
        usual, cluster("dgx-h100", 2, "NCCL_NCHANNELS_PER_NET_PEER=0").comm().channelsPerPeer());
    assertEquals(
        8, cluster("dgx-h100", 2, "NCCL_NCHANNELS_PER_NET_PEER=8").comm().channelsPerPeer());
  }

  @Test
  void whereNcclGivesUpAChannelIsMadeUp() {
    String[] nothing = {"NCCL_P2P_DISABLE=1"};
    assertEquals(1, cluster("pcie-2-intel", 1, nothing).domains().size());
    ClusterOptions compatible =
        new ClusterOptions(
            TopoSettings.parse(Map.of("NCCL4J_TOPO_COMPAT", "nccl")), PeerStatus.ALLOWED, false);
    assertEquals(
        Answer.of(Cluster.of(TestMachines.read("dgx-h100"), 2, ClusterOptions.DEFAULT)),
        Answer.of(Cluster.of(TestMachines.read("dgx-h100"), 2, compatible)));
  }
}
