package org.nccl4j.api.init.connect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.init.topology.NetDistances;
import org.nccl4j.api.spi.NetEgress;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.connect.EgressRoutes;
import org.nccl4j.topo.path.PeerStatus;
import org.nccl4j.topo.xml.TopologyXml;

/** All ranks find the same of each connection: whether its channels take turns with NICs. */
class ChannelTurnsTest {
  private static final int OF_HOST = 2;

  /** A switch with a GPU, linked to the other one, and two NICs. */
  private static String side(int number, int speed) {
    return """
    <pci busid="0000:%1$d0:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
    <pci busid="0000:%1$d1:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
    <gpu dev="%1$d" sm="90" rank="%1$d" gdr="1">
    <nvlink target="0000:%3$d1:00.0" count="18" tclass="0x030200"/></gpu></pci>
    <pci busid="0000:%1$d2:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
    <nic><net name="a%1$d" dev="%4$d" speed="200000" port="1" guid="0x%1$d" gdr="1"/></nic></pci>
    <pci busid="0000:%1$d3:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
    <nic><net name="b%1$d" dev="%5$d" speed="%2$d" port="1" guid="0x1%1$d" gdr="1"/></nic></pci>
    </pci>
    """
        .formatted(number, speed, 1 - number, 2 * number, 2 * number + 1);
  }

  /** Ranks of two hosts; the second NIC of the last GPU has some Mbit/s. */
  private static List<TransportContext> contexts(int lastSpeed, Map<String, String> texts) {
    List<CommTopology.Host> hosts = new ArrayList<>();
    for (int host = 0; host < 2; host++) {
      String text =
          """
          <system version="1"><cpu numaid="0" arch="x86_64" vendor="AuthenticAMD">%s%s</cpu></system>
          """
              .formatted(side(0, 200_000), side(1, host == 1 ? lastSpeed : 200_000));
      int first = OF_HOST * host;
      hosts.add(
          new CommTopology.Host(
              TopologyXml.parseSystem("test", text), new int[] {first, first + 1}));
    }
    TopoSettings settings = TopoSettings.parse(texts);
    CommTopology topology =
        CommTopology.of(hosts, new ClusterOptions(settings, PeerStatus.ALLOWED, false));
    Optional<EgressRoutes> routes = Optional.of(new EgressRoutes(topology.comm(), settings));
    List<TransportContext> contexts = new ArrayList<>();
    for (int rank = 0; rank < 2 * OF_HOST; rank++) {
      contexts.add(
          new TransportContextImpl(
              rank,
              List.of(),
              List.of(),
              null,
              null,
              null,
              null,
              NetDistances.of(Optional.of(topology), rank),
              null,
              Set.of(),
              routes,
              null,
              Optional.empty(),
              null));
    }
    return contexts;
  }

  private static boolean takesTurns(List<TransportContext> contexts, int from, int to) {
    boolean found = contexts.get(from).takesTurns(from, to);
    for (TransportContext context : contexts) {
      assertEquals(found, context.takesTurns(from, to), from + " to " + to);
    }
    assertEquals(
        contexts.get(from).egressTo(to), contexts.get(to).egressFrom(from), from + " to " + to);
    return found;
  }

  @Test
  void channelsTakeTurnsBetweenGpusWithTheSameNics() {
    List<TransportContext> contexts = contexts(200_000, Map.of());
    int relayed = 0;
    for (int from = 0; from < OF_HOST; from++) {
      for (int to = OF_HOST; to < 2 * OF_HOST; to++) {
        assertTrue(takesTurns(contexts, from, to), from + " to " + to);
        assertTrue(takesTurns(contexts, to, from), to + " to " + from);
        int sender = from;
        relayed +=
            (int)
                contexts.get(from).egressTo(to).filter(way -> way.rank() != sender).stream()
                    .count();
      }
    }
    assertTrue(relayed > 0, "some data leave through another rank");
  }

  /** The GPU beside the NICs counts: rank 1 sends to rank 3, and for rank 0. */
  @Test
  void aSlowerNicOfOneGpuEndsTheTurnsOfItsRail() {
    List<TransportContext> contexts = contexts(100_000, Map.of());
    for (int from = 0; from < OF_HOST; from++) {
      assertFalse(takesTurns(contexts, from, 3), from + " to 3");
      assertTrue(takesTurns(contexts, from, 2), from + " to 2");
    }
  }

  /** Without relays, data for the other rail leave through a NIC that is not the sender's. */
  @Test
  void dataThatLeaveThroughAFarNicTakeNoTurns() {
    List<TransportContext> contexts =
        contexts(200_000, Map.of("NCCL_CROSS_NIC", "0", "NCCL_PXN_DISABLE", "1"));
    assertTrue(takesTurns(contexts, 0, 2));
    int far = 0;
    for (int from = 0; from < OF_HOST; from++) {
      int to = 2 * OF_HOST - 1 - from;
      Optional<NetEgress> way = contexts.get(from).egressTo(to);
      boolean own = way.isPresent() && way.get().rank() == from;
      assertEquals(!own, takesTurns(contexts, from, to), from + " to " + to);
      far += own ? 1 : 0;
    }
    assertTrue(far > 0, "some data leave through a far NIC");
  }
}
