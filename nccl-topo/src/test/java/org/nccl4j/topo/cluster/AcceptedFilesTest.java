package org.nccl4j.topo.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.topo.CpuTime;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.path.Path;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.system.Link;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;

/** Files that are odd and that NCCL accepts. */
class AcceptedFilesTest {
  private static final String CPU =
      "<cpu numaid=\"%d\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"85\">";

  private static XmlElement system(String... cpus) {
    StringBuilder text = new StringBuilder("<system version=\"1\">\n");
    for (int i = 0; i < cpus.length; i++) {
      text.append(CPU.formatted(i)).append(cpus[i]).append("</cpu>\n");
    }
    return TopologyXml.parseSystem("test.xml", text + "</system>\n");
  }

  private static String pci(int bus, String inside) {
    return "<pci busid=\"0000:%02x:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\""
            .formatted(bus)
        + " link_width=\"16\">"
        + inside
        + "</pci>\n";
  }

  private static String pciSwitch(int bus, String inside) {
    return pci(bus, inside).replaceFirst("0x030200", "0x060400");
  }

  private static String gpu(int dev, String rank, String links) {
    return "<gpu dev=\"%d\" sm=\"80\" %s gdr=\"1\">%s</gpu>".formatted(dev, rank, links);
  }

  private static String nvlink(int bus) {
    return "<nvlink target=\"0000:%02x:00.0\" count=\"2\" tclass=\"0x030200\"/>".formatted(bus);
  }

  private static String nic(int bus, int net) {
    return "<pci busid=\"0000:%02x:00.0\" class=\"0x020000\" link_speed=\"16.0 GT/s PCIe\""
            .formatted(bus)
        + " link_width=\"16\"><nic><net name=\"n\" dev=\"%d\" speed=\"200000\" port=\"0\""
            .formatted(net)
        + " guid=\"0x%x\" gdr=\"1\"/></nic></pci>".formatted(net);
  }

  private static Routes routes(XmlElement system) {
    return Cluster.routes(system, ClusterOptions.DEFAULT);
  }

  /** As in a cloud provider's own file: NCCL counts such a link, with its bandwidth. */
  @Test
  void anNvlinkFromAGpuToItself() {
    XmlElement odd =
        system(
            pci(1, gpu(0, "rank=\"0\"", nvlink(1) + nvlink(2)))
                + pci(2, gpu(1, "rank=\"1\"", nvlink(1))));
    Machine machine = routes(odd).machine();
    Path path = routes(odd).paths().path(machine.gpus().get(0), machine.gpus().get(1));
    assertEquals(PathType.NVL, path.type());
    Node device = machine.nodes(NodeType.DEV).get(0);
    List<Float> toItself =
        device.links().stream().filter(link -> link.to() == device).map(Link::bandwidth).toList();
    assertEquals(List.of(path.bandwidth()), toItself);
    assertEquals(2, Cluster.of(odd, 1, ClusterOptions.DEFAULT).comm().shape().nRanks());
  }

  @Test
  void aGpuWithLinksAndNoRankIsLeftOut() {
    XmlElement odd =
        system(
            pci(1, gpu(0, "rank=\"0\"", nvlink(2) + nvlink(3)))
                + pci(2, gpu(1, "rank=\"1\"", nvlink(1) + nvlink(3)))
                + pci(3, gpu(2, "", nvlink(1) + nvlink(2))));
    Machine machine = routes(odd).machine();
    assertEquals(2, machine.gpus().size());
    assertEquals(2, machine.nodes(NodeType.DEV).size(), machine.nodes().toString());
    Path path = routes(odd).paths().path(machine.gpus().get(0), machine.gpus().get(1));
    assertEquals(PathType.NVL, path.type());
  }

  /** The second card is the near one for the GPU of the second CPU. */
  @Test
  void aNetworkOnSeveralCardsIsReachedByTheNearest() {
    String odd = pciSwitch(9, pci(1, gpu(0, "rank=\"0\"", "")) + nic(2, 0));
    String far = pciSwitch(8, pci(3, gpu(1, "rank=\"1\"", "")) + nic(4, 0));
    Routes routes = routes(system(odd, far));
    Machine machine = routes.machine();
    for (int gpu = 0; gpu < 2; gpu++) {
      Path path = routes.paths().path(machine.gpus().get(gpu), machine.nets().get(0));
      assertEquals(PathType.PIX, path.type(), "GPU " + gpu);
    }
  }

  @Test
  void manyGpusAndNetworksArePlannedInSeconds() {
    StringBuilder rack = new StringBuilder();
    for (int i = 0; i < 250; i++) {
      String inside =
          pci(0, gpu(i, "rank=\"%d\"".formatted(i), "")).replace("0000:00:", busOf(2 * i))
              + nic(0, i).replace("0000:00:", busOf(2 * i + 1));
      rack.append(pciSwitch(0, inside).replace("0000:00:", "%04x:ff:".formatted(i)));
    }
    XmlElement system = system(rack.toString());
    CpuTime.assertLess(Duration.ofSeconds(30), () -> routes(system));
  }

  private static String busOf(int n) {
    return "%04x:01:".formatted(n);
  }

  @Test
  void aClusterOfMoreRanksThanFitIsRefused() {
    XmlElement one = system(pci(1, gpu(0, "rank=\"0\"", "")) + nic(2, 0));
    Routes routes = routes(one);
    TopologyException refused =
        assertThrows(
            TopologyException.class, () -> Cluster.of(routes, 1 << 28, ClusterOptions.DEFAULT));
    assertTrue(refused.getMessage().contains("131072"), refused.getMessage());
  }
}
