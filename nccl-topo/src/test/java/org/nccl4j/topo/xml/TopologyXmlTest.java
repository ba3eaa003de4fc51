package org.nccl4j.topo.xml;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.nccl4j.topo.TestMachines;

/** A written topology equals the one that was read; views of ranks fuse into the machine. */
class TopologyXmlTest {
  @ParameterizedTest
  @MethodSource("org.nccl4j.topo.TestMachines#names")
  void writtenFilesReadTheSame(String name) {
    String once = TopologyXml.write(TestMachines.read(name));
    assertEquals(once, TopologyXml.write(TopologyXml.parseSystem("again", once)));
  }

  @Test
  void unknownAttributesAreKeptAndUnknownElementsSkipped() {
    XmlElement system =
        TopologyXml.parseSystem(
            "a",
            "<system version=\"1\"><future><cpu/></future><cpu later=\"&lt;1&gt;\"/></system>");
    assertEquals(
        "<system version=\"1\">\n  <cpu later=\"&lt;1&gt;\"/>\n</system>\n",
        TopologyXml.write(system));
  }

  @Test
  void commentsMayHaveDashesAndQuotesMayBeSingle() {
    XmlElement system =
        TopologyXml.parseSystem("a", "<?xml version='1.0'?><!-- a -- b --><system version='1'/>");
    assertEquals("1", system.require("version"));
  }

  @Test
  void viewsOfRanksFuse() {
    XmlElement whole = TestMachines.read("dgx-h100");
    List<XmlElement> views =
        List.of(0, 1, 2, 3, 4, 5, 6, 7).stream().map(rank -> view(whole.copy(), rank)).toList();
    XmlElement fused = XmlFusion.fuse(views);
    assertEquals(8, count(fused, "gpu"));
    assertEquals(8, count(fused, "net"));
    assertEquals(count(whole, "pci"), count(fused, "pci"));
    assertEquals(1, count(views.get(3), "gpu"));
  }

  /** One rank's view: its own GPU, and all network cards. */
  private static XmlElement view(XmlElement system, int rank) {
    keepRank(system, rank);
    XmlPruning.prune(system);
    return system;
  }

  private static void keepRank(XmlElement element, int rank) {
    for (XmlElement child : element.children().toArray(XmlElement[]::new)) {
      if (child.is("gpu") && child.requireInt("rank") != rank) {
        element.remove(child);
      } else {
        keepRank(child, rank);
      }
    }
  }

  private static long count(XmlElement element, String tag) {
    return (element.is(tag) ? 1 : 0)
        + element.children().stream().mapToLong(child -> count(child, tag)).sum();
  }

  @Test
  void branchesWithoutDevicesArePruned() {
    XmlElement system =
        TopologyXml.parseSystem(
            "a",
            "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"1\"><pci"
                + " busid=\"2\"/></pci></cpu><cpu numaid=\"1\"><nic><net keep=\"0\" dev=\"0\"/><net"
                + " dev=\"1\"/></nic></cpu></system>");
    XmlPruning.prune(system);
    assertEquals(1, count(system, "cpu"));
    assertEquals(1, count(system, "net"));
    assertEquals(0, count(system, "pci"));
  }
}
