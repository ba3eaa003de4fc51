package org.nccl4j.api.init.topology;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.detect.GpuFacts;
import org.nccl4j.topo.path.PeerStatus;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;

/** The machines of some of a communicator's ranks. */
class TopologyExchangeTest {
  /** Six GPUs in a ring of NVLinks, each linked to the two that are two and four further. */
  private static TopologyExchange survey() {
    StringBuilder text =
        new StringBuilder(
            "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">\n");
    for (int gpu = 0; gpu < 6; gpu++) {
      text.append(
          "<pci busid=\"0000:1%d:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\""
                  .formatted(gpu)
              + " link_width=\"16\"><gpu dev=\"%d\" sm=\"80\" rank=\"%d\" gdr=\"1\">"
                  .formatted(gpu, gpu));
      for (int step : new int[] {2, 3, 4}) {
        text.append(
            "<nvlink target=\"0000:1%d:00.0\" count=\"2\" tclass=\"0x030200\"/>"
                .formatted((gpu + step) % 6));
      }
      text.append("</gpu></pci>\n");
    }
    String file = text + "</cpu></system>\n";
    CommTopology.Host first =
        new CommTopology.Host(TopologyXml.parseSystem("first", file), new int[] {0, 1, 2, 6, 7, 8});
    CommTopology.Host second =
        new CommTopology.Host(
            TopologyXml.parseSystem("second", file), new int[] {3, 4, 5, 9, 10, 11});
    return new TopologyExchange(List.of(first, second), true);
  }

  @Test
  void aSplitHasItsGpusAloneUnderItsOwnNumbers() {
    // Of the first machine GPUs 3, 0, 5 and 2, in that order.
    TopologyExchange some = survey().of(List.of(6, 0, 8, 2));
    assertEquals(1, some.hosts().size());
    assertArrayEquals(new int[] {0, 1, 2, 3}, some.hosts().get(0).ranks());
    String system = TopologyXml.write(some.hosts().get(0).system());
    assertTrue(system.contains("dev=\"3\" sm=\"80\" rank=\"0\""), system);
    assertTrue(system.contains("dev=\"0\" sm=\"80\" rank=\"1\""), system);
    assertTrue(system.contains("dev=\"5\" sm=\"80\" rank=\"2\""), system);
    assertTrue(system.contains("dev=\"2\" sm=\"80\" rank=\"3\""), system);
    assertEquals(4, system.split("<gpu ").length - 1);
    int[] ring = ring(some);
    // NVLinks: 3-0, 3-5, 0-2, 5-2; none between 3 and 2 or 0 and 5.
    assertEquals(2, Math.abs(at(ring, 0) - at(ring, 3)), "ranks 0 and 3 are not linked");
  }

  private static int at(int[] ring, int rank) {
    return List.of(ring[0], ring[1], ring[2], ring[3]).indexOf(rank);
  }

  private static int[] ring(TopologyExchange survey) {
    ClusterOptions options = new ClusterOptions(TopoSettings.defaults(), PeerStatus.ALLOWED, false);
    return CommTopology.of(survey.hosts(), options).comm().rings().order(0);
  }

  @Test
  void aSplitOfASplitIsThatOfTheFirst() {
    TopologyExchange twice = survey().of(List.of(8, 7, 6, 4, 1, 0)).of(List.of(2, 5, 0, 1));
    TopologyExchange once = survey().of(List.of(6, 0, 8, 7));
    assertEquals(
        TopologyXml.write(once.hosts().get(0).system()),
        TopologyXml.write(twice.hosts().get(0).system()));
  }

  @Test
  void overTwoMachinesEachRankIsOnItsOwn() {
    TopologyExchange some = survey().of(List.of(4, 1, 9, 8));
    assertEquals(2, some.hosts().size());
    assertArrayEquals(new int[] {1, 3}, some.hosts().get(0).ranks());
    assertArrayEquals(new int[] {0, 2}, some.hosts().get(1).ranks());
  }

  private static XmlElement view(int gpu, String... nets) {
    StringBuilder text =
        new StringBuilder("<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\">\n");
    text.append("<pci busid=\"0000:1%d:00.0\"><gpu dev=\"%d\"".formatted(gpu, gpu));
    text.append(" sm=\"80\" rank=\"%d\"/></pci><nic>".formatted(gpu));
    for (int dev = 0; dev < nets.length; dev++) {
      text.append("<net name=\"%s\" dev=\"%d\"/>".formatted(nets[dev], dev));
    }
    return TopologyXml.parseSystem("view", text + "</nic></cpu></system>");
  }

  /** Networks that several containers see are one, and no two have the same number. */
  @Test
  void whatContainersOfAHostSeeIsJoined() {
    XmlElement joined =
        HostTopology.join(
            List.of(view(0, "mlx5_0", "eth0"), view(1, "eth1", "mlx5_0"), view(2, "mlx5_0")),
            false);
    String text = TopologyXml.write(joined);
    for (int gpu = 0; gpu < 3; gpu++) {
      assertTrue(text.contains("<gpu dev=\"%d\"".formatted(gpu)), text);
    }
    assertEquals(1, text.split("<cpu ").length - 1, text);
    assertEquals(3, text.split("<net ").length - 1, text);
    for (int dev = 0; dev < 3; dev++) {
      assertEquals(1, text.split("\"\\w+\" dev=\"%d\"/>".formatted(dev)).length - 1, text);
    }
  }

  @Test
  void oneViewAndFilesKeepTheirNumbers() {
    XmlElement view = view(0, "mlx5_0", "eth0");
    String before = TopologyXml.write(view);
    assertEquals(before, TopologyXml.write(HostTopology.join(List.of(view), false)));
    XmlElement again = view(0, "mlx5_0", "eth0");
    assertEquals(before, TopologyXml.write(HostTopology.join(List.of(view, again), true)));
  }

  /** A host's ranks tell the others what its driver allows; other hosts' drivers do not count. */
  @Test
  void forbiddenPeersTravelWithTheFactsOfTheirGpu() {
    GpuFacts gpu =
        new GpuFacts(
            "0000:10:00.0",
            0,
            -1,
            80,
            true,
            Map.of("0000:11:00.0", 4),
            0,
            0,
            Set.of("0000:12:00.0"));
    MachineFacts facts = new MachineFacts("here", Optional.of(gpu), false, false, false);
    assertEquals(facts, MachineFacts.fromBytes(0, facts.toBytes()));
  }
}
