package org.nccl4j.api.init.topology;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.Support;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.path.PeerStatus;
import org.nccl4j.topo.xml.TopologyXml;

/** Distances of GPUs and cards, on two machines with a card below each PCIe switch. */
class NetDistancesTest {
  private static final String MACHINE =
      """
      <system version="1"><cpu numaid="0" arch="x86_64" vendor="AuthenticAMD">%s%s</cpu></system>
      """;

  /** A switch with a GPU of some generation and a card. */
  private static String side(int number, int sm, int gdr) {
    return """
    <pci busid="0000:%1$d0:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
    <pci busid="0000:%1$d1:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
    <gpu dev="%1$d" sm="%2$d" rank="%1$d" gdr="1"/></pci>
    <pci busid="0000:%1$d2:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
    <nic><net name="mlx5_%1$d" dev="%1$d" speed="200000" port="1" guid="0x%1$d" gdr="%3$d"/></nic>
    </pci></pci>
    """
        .formatted(number, sm, gdr);
  }

  private static NetDistances of(int rank, int sm, int gdr, String... settings) {
    Map<String, String> texts = new HashMap<>(Map.of("NCCL_PXN_DISABLE", "1"));
    for (int i = 0; i < settings.length; i += 2) {
      texts.put(settings[i], settings[i + 1]);
    }
    List<CommTopology.Host> hosts = new ArrayList<>();
    for (int host = 0; host < 2; host++) {
      String text = MACHINE.formatted(side(0, sm, gdr), side(1, sm, gdr));
      hosts.add(
          new CommTopology.Host(
              TopologyXml.parseSystem("test", text), new int[] {2 * host, 2 * host + 1}));
    }
    ClusterOptions options =
        new ClusterOptions(TopoSettings.parse(texts), PeerStatus.ALLOWED, false);
    return NetDistances.of(Optional.of(CommTopology.of(hosts, options)), rank);
  }

  static NetDevice card(String name) {
    Set<NetDevice.Pointers> pointers = Set.of(NetDevice.Pointers.HOST);
    return new NetDevice(name, "", 0, 1, 200_000, 1, pointers, 1, 1 << 30);
  }

  private static void assertNo(Support support, String why) {
    assertFalse(support.possible());
    assertTrue(support.reason().contains(why), support.reason());
  }

  @Test
  void theCardBelowTheSameSwitchIsNear() {
    for (int rank = 0; rank < 4; rank++) {
      NetDistances distances = of(rank, 90, 1);
      assertEquals("mlx5_" + rank % 2 + ":1", distances.nearest().get(0).names().get(0));
      for (boolean reads : new boolean[] {true, false}) {
        Support near = distances.directAccess(card("mlx5_" + rank % 2 + ":1"), reads);
        assertTrue(near.possible(), near.reason());
        assertEquals("the path is PIX", near.reason());
        assertNo(
            distances.directAccess(card("mlx5_" + (1 - rank % 2) + ":1"), reads),
            "farther than NCCL_NET_GDR_LEVEL allows");
      }
    }
  }

  /** The data go over the ports of both cards. */
  @Test
  void allPortsOfAMergedCardHaveToBeNear() {
    for (String name : List.of("mlx5_0:1+mlx5_1:1", "mlx5_1:1+mlx5_0:1")) {
      assertNo(of(0, 90, 1).directAccess(card(name), true), "farther than NCCL_NET_GDR_LEVEL");
      assertTrue(
          of(0, 90, 1, "NCCL_NET_GDR_LEVEL", "SYS").directAccess(card(name), true).possible());
    }
  }

  @Test
  void theLevelIsTheUsers() {
    assertTrue(
        of(0, 90, 1, "NCCL_NET_GDR_LEVEL", "SYS").directAccess(card("mlx5_1:1"), false).possible());
    assertNo(
        of(0, 90, 1, "NCCL_NET_GDR_LEVEL", "LOC").directAccess(card("mlx5_0:1"), false),
        "farther than NCCL_NET_GDR_LEVEL allows (LOC)");
  }

  @Test
  void oldGpusAreWrittenToAndNotRead() {
    assertTrue(of(0, 70, 1).directAccess(card("mlx5_0:1"), false).possible());
    assertNo(of(0, 70, 1).directAccess(card("mlx5_0:1"), true), "NCCL_NET_GDR_READ=1");
    assertTrue(
        of(0, 70, 1, "NCCL_NET_GDR_READ", "1").directAccess(card("mlx5_0:1"), true).possible());
  }

  /** A machine with a GPU and cards of some Mbit/s. */
  private static String machine(int... speeds) {
    StringBuilder cards = new StringBuilder();
    for (int card = 0; card < speeds.length; card++) {
      cards.append(
          """
          <pci busid="0000:0%1$d:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
          <nic><net name="mlx5_%1$d" dev="%1$d" speed="%2$d" port="1" guid="0x%1$d" gdr="1"/></nic>
          </pci>
          """
              .formatted(card, speeds[card]));
    }
    return MACHINE.formatted(
        """
        <pci busid="0000:a0:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
        <pci busid="0000:a1:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1"/></pci>
        """,
        cards + "</pci>");
  }

  /** Ranks 0 to 2, one a machine: rank 2's machine has other cards, or a slower one. */
  @ParameterizedTest
  @CsvSource({"100000, 200000, false", "200000, 0, false", "200000, 200000, true"})
  void ranksKnowWhoseCardsAreLikeTheirs(int first, int second, boolean alike) {
    int[] last = second == 0 ? new int[] {first} : new int[] {first, second};
    List<CommTopology.Host> hosts = new ArrayList<>();
    for (String text :
        List.of(machine(200_000, 200_000), machine(200_000, 200_000), machine(last))) {
      hosts.add(
          new CommTopology.Host(TopologyXml.parseSystem("test", text), new int[] {hosts.size()}));
    }
    CommTopology topology =
        CommTopology.of(
            hosts, new ClusterOptions(TopoSettings.parse(Map.of()), PeerStatus.ALLOWED, false));
    for (int rank = 0; rank < 3; rank++) {
      NetDistances distances = NetDistances.of(Optional.of(topology), rank);
      for (int peer = 0; peer < 3; peer++) {
        boolean expected = alike || (rank == 2) == (peer == 2);
        assertEquals(expected, distances.haveNetsAlike(rank, peer), rank + " and " + peer);
        assertEquals(expected, distances.haveNetsAlike(peer, rank), peer + " and " + rank);
      }
    }
    assertFalse(NetDistances.UNKNOWN.haveNetsAlike(0, 1));
  }

  @Test
  void channelsThatTheUserAsksForAreCarried() {
    assertEquals(40, of(0, 90, 1, "NCCL_MIN_NCHANNELS", "40").channels());
    assertEquals(24, of(0, 90, 1, "NCCL_MIN_CTAS", "24").channels());
    assertTrue(of(0, 90, 1).channels() <= 16);
  }

  @Test
  void whatIsNotKnownIsNotUsed() {
    assertNo(of(0, 90, 1).directAccess(card("eth0"), true), "does not have it");
    assertNo(NetDistances.UNKNOWN.directAccess(card("mlx5_0:1"), true), "is not known");
    assertTrue(NetDistances.UNKNOWN.nearest().isEmpty());
    assertNo(of(0, 90, 0).directAccess(card("mlx5_0:1"), false), "(gdr)");
  }
}
