package org.nccl4j.api.init.topology;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.connect.CommGraph;
import org.nccl4j.topo.path.PeerStatus;
import org.nccl4j.topo.search.GraphKind;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;

/** The hosts of one NVLink clique as the search sees them: compute trays of a rack. */
class CliqueTopologyTest {
  private static final int GPUS = 4;

  /** A tray like all others, but for the ranks on its GPUs. */
  private static XmlElement tray(int firstRank) {
    StringBuilder text = new StringBuilder("<system version=\"1\">\n");
    for (int cpu = 0; cpu < 2; cpu++) {
      text.append("<cpu numaid=\"%d\" host_hash=\"0x77\" arch=\"arm64\">\n".formatted(cpu));
      for (int gpu = 2 * cpu; gpu < 2 * cpu + 2; gpu++) {
        text.append(
            """
            <pci busid="%1$04d:10:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
            <pci busid="%1$04d:12:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
            <gpu dev="%1$d" sm="100" rank="%2$d" gdr="1">
            <nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/></gpu></pci>
            <pci busid="%1$04d:13:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
            <nic><net name="mlx5_%1$d" dev="%1$d" speed="400000" port="1" guid="0x%2$d" gdr="1"/></nic>
            </pci></pci>
            """
                .formatted(gpu, firstRank + gpu));
      }
      text.append("</cpu>\n");
    }
    return TopologyXml.parseSystem("tray", text + "</system>");
  }

  private static CommTopology.Host rack(int hosts, int firstRank) {
    List<XmlElement> trays = new ArrayList<>();
    for (int host = 0; host < hosts; host++) {
      trays.add(tray(host * GPUS));
    }
    int[] ranks = IntStream.range(firstRank, firstRank + hosts * GPUS).toArray();
    return new CommTopology.Host(CliqueTopology.fuse(trays), ranks);
  }

  private static CommTopology topology(List<CommTopology.Host> machines) {
    TopoSettings settings = TopoSettings.parse(Map.of("NCCL_PXN_DISABLE", "1"));
    return CommTopology.of(machines, new ClusterOptions(settings, PeerStatus.ALLOWED, false));
  }

  @ParameterizedTest
  @CsvSource({"2", "18"})
  void allGpusOfARackAreNeighboursOfOneNode(int hosts) {
    CommGraph comm = topology(List.of(rack(hosts, 0))).comm();
    assertEquals(1, comm.shape().nNodes());
    assertEquals(hosts * GPUS, comm.rings().order(0).length);
    assertEquals(PathType.NVL, comm.of(GraphKind.RING).typeIntra());
    assertTrue(comm.nChannels() >= 8, comm.nChannels() + " channels");
    assertTrue(comm.nvls(), "the search sees the switch");
  }

  @Test
  void racksAreNodesThatANetworkConnects() {
    CommGraph comm = topology(List.of(rack(2, 0), rack(2, 8))).comm();
    assertEquals(2, comm.shape().nNodes());
    assertEquals(PathType.NVL, comm.of(GraphKind.RING).typeIntra());
    for (int channel = 0; channel < comm.nChannels(); channel++) {
      int crossings = 0;
      int[] ring = comm.rings().order(channel);
      for (int at = 0; at < ring.length; at++) {
        crossings += ring[at] / 8 == ring[(at + 1) % ring.length] / 8 ? 0 : 1;
      }
      assertEquals(2, crossings, "a ring enters and leaves each rack once");
    }
  }

  @Test
  void cardsAreOfTheHostThatTheyAreIn() {
    CommTopology two = topology(List.of(rack(2, 0), rack(1, 8)));
    for (int rank = 0; rank < 12; rank++) {
      NetDistances near = NetDistances.of(Optional.of(two), rank);
      String own = "mlx5_" + rank % GPUS;
      assertEquals(own + ":1", near.nearest().get(0).names().get(0), "of rank " + rank);
      assertTrue(near.directAccess(card(own), false).possible());
      String other = "mlx5_" + (rank + 2) % GPUS;
      assertFalse(near.directAccess(card(other), false).possible(), "over both processors");
    }
  }

  private static NetDevice card(String name) {
    return NetDistancesTest.card(name);
  }

  @Test
  void aSplitKeepsTheHostsThatItHasRanksOn() {
    TopologyExchange all = new TopologyExchange(List.of(rack(3, 0)), true);
    TopologyExchange some = all.of(List.of(9, 0, 1));
    assertEquals(1, some.hosts().size());
    String text = TopologyXml.write(some.hosts().get(0).system());
    assertEquals(3, text.split("<gpu ").length - 1, text);
    assertFalse(text.contains("host_hash=\"0x2\""), text);
    assertEquals(8, text.split("<net ").length - 1, text);
    CommGraph comm = topology(some.hosts()).comm();
    assertEquals(1, comm.shape().nNodes());
    assertEquals(PathType.NVL, comm.of(GraphKind.RING).typeIntra());
  }

  @Test
  void oneHostStaysAsItIs() {
    XmlElement tray = tray(0);
    assertSame(tray, CliqueTopology.fuse(List.of(tray)));
  }
}
