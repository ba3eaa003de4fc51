package org.nccl4j.topo.report;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.nccl4j.topo.TestMachines;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.search.GraphKind;

/** Reports name every device, and every sentence names what would change it. */
class ReportTest {
  private static Cluster cluster(String name) {
    return TestMachines.cluster(name, 1, Map.of());
  }

  @ParameterizedTest
  @MethodSource("org.nccl4j.topo.TestMachines#names")
  void everyDeviceIsShown(String name) {
    Cluster cluster = cluster(name);
    String tree = MachineTree.of(cluster.whole().machine());
    cluster
        .whole()
        .machine()
        .gpus()
        .forEach(gpu -> assertTrue(tree.contains("GPU " + gpu.gpu().rank() + ":"), tree));
    cluster
        .whole()
        .machine()
        .nets()
        .forEach(net -> assertTrue(tree.contains("NET " + net.net().name()), tree));
    int rows = cluster.whole().machine().gpus().size() + cluster.whole().machine().nets().size();
    assertEquals(rows + 1, PathMatrix.of(cluster.whole()).lines().count());
  }

  @ParameterizedTest
  @MethodSource("org.nccl4j.topo.TestMachines#names")
  void picturesAreClosedXml(String name) {
    String svg = Drawing.of(cluster(name).domains().get(0), "<" + name + ">");
    Matcher opened = Pattern.compile("<(svg|title|text)\\b").matcher(svg);
    long open = opened.results().count();
    assertEquals(open, Pattern.compile("</(svg|title|text)>").matcher(svg).results().count());
    assertTrue(svg.startsWith("<svg") && svg.stripTrailing().endsWith("</svg>"));
    assertTrue(svg.contains("&lt;" + name));
    assertTrue(!svg.contains("NaN"));
  }

  /** Of a machine whose first ring comes in and goes out by a network card. */
  @Test
  void ringsAmongMachinesReachTheNetworkCards() {
    Cluster two = TestMachines.cluster("dgx1-v100", 2, Map.of());
    int gpus = two.domains().get(0).of(GraphKind.RING).channels().get(0).ranks().size();
    String svg = Drawing.of(two.domains().get(0), "one of two");
    assertEquals(gpus + 1, firstRing(svg), "from the card, through all GPUs, to the card");
    assertTrue(svg.contains("through the network cards"), svg);
    String one = Drawing.of(cluster("dgx1-v100").domains().get(0), "one");
    assertEquals(gpus, firstRing(one));
    assertTrue(!one.contains("through the network cards"), one);
  }

  private static long firstRing(String svg) {
    return Pattern.compile("<path [^>]*#d62728").matcher(svg).results().count();
  }

  @Test
  void explanationsNameRuleAndSetting() {
    String text = Explanation.of(cluster("dgx1-v100"), TopoSettings.defaults());
    assertTrue(text.contains("NCCL_P2P_LEVEL"));
    assertTrue(text.contains("NCCL_PXN_DISABLE=1"));
    assertTrue(text.contains("through GPU 1"));
    assertTrue(text.contains("there is no NVSwitch"));
    String pcie = Explanation.of(cluster("pcie-8-intel"), TopoSettings.defaults());
    assertTrue(pcie.contains("a node of its own"), pcie);
    String arm = Explanation.of(cluster("arm-2a100"), TopoSettings.defaults());
    assertTrue(arm.contains("SHM"), arm);
  }
}
