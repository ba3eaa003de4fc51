package org.nccl4j.api.init.topology;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.Support;
import org.nccl4j.device.Device;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.path.PeerStatus;
import org.nccl4j.topo.xml.TopologyXml;

/**
 * P2P by NCCL's levels on a machine of two CPUs: GPUs 0 and 1 are below one switch, 2 below another
 * of the same switch, 3 at the same CPU, 4 and 5 at the other CPU, with NVLinks to each other.
 */
class PeerDistancesTest {
  private static final String SWITCH =
      "<pci busid=\"%s\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">%s</pci>";
  private static final String GPU =
      "<pci busid=\"0000:0%1$d:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\""
          + " link_width=\"16\"><gpu dev=\"%1$d\" sm=\"86\" rank=\"%1$d\" gdr=\"1\">%2$s</gpu></pci>";

  private static String gpu(int number) {
    return GPU.formatted(number, number < 4 ? "" : nvlink(9 - number));
  }

  private static String nvlink(int to) {
    return "<nvlink target=\"0000:0%d:00.0\" count=\"4\" tclass=\"0x030200\"/>".formatted(to);
  }

  private static CommTopology machine(PeerStatus driver, Map<String, String> settings) {
    String near = SWITCH.formatted("0000:a1:00.0", gpu(0) + gpu(1));
    String far = SWITCH.formatted("0000:a2:00.0", gpu(2));
    String cpu =
        "<cpu numaid=\"%d\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"106\">%s</cpu>";
    String text =
        "<system version=\"1\">"
            + cpu.formatted(0, SWITCH.formatted("0000:a0:00.0", near + far) + gpu(3))
            + cpu.formatted(1, gpu(4) + gpu(5))
            + "</system>";
    int[] ranks = IntStream.range(0, 6).toArray();
    return CommTopology.of(
        List.of(new CommTopology.Host(TopologyXml.parseSystem("test", text), ranks)),
        new ClusterOptions(TopoSettings.parse(settings), driver, false));
  }

  private static Support ask(
      int from, int peer, CommTopology machine, Map<String, String> settings, boolean known) {
    return new PeerDistances(
            from, Optional.of(machine), TopoSettings.parse(settings).p2pLevel(), other -> known)
        .directAccess(info(peer));
  }

  private static PeerInfo info(int rank) {
    return new PeerInfo(rank, "h", "ns", "p", 0, Device.Kind.CUDA, "0000:0" + rank + ":00.0");
  }

  /** Which of GPUs 1, 2, 3 and 4 GPU 0 reaches, and whether 4 reaches 5. */
  @ParameterizedTest
  @CsvSource({
    "'', 1100 1",
    "NCCL_P2P_LEVEL=LOC, 0000 0",
    "NCCL_P2P_LEVEL=NVL, 0000 1",
    "NCCL_P2P_LEVEL=PIX, 1000 1",
    "NCCL_P2P_LEVEL=PXB, 1100 1",
    "NCCL_P2P_LEVEL=PHB, 1110 1",
    "NCCL_P2P_LEVEL=SYS, 1111 1",
    "NCCL_P2P_LEVEL=2, 1100 1",
    "NCCL_P2P_DISABLE=1, 0000 0"
  })
  void theLevelChoosesThePairs(String setting, String expected) {
    Map<String, String> settings =
        setting.isEmpty() ? Map.of() : Map.of(setting.split("=")[0], setting.split("=")[1]);
    CommTopology machine = machine(PeerStatus.ALLOWED, settings);
    StringBuilder reached = new StringBuilder();
    for (int peer = 1; peer <= 4; peer++) {
      Support answer = ask(0, peer, machine, settings, true);
      assertEquals(answer.possible(), ask(peer, 0, machine, settings, true).possible());
      reached.append(answer.possible() ? 1 : 0);
    }
    reached.append(ask(4, 5, machine, settings, true).possible() ? " 1" : " 0");
    assertEquals(expected, reached.toString());
  }

  @Test
  void aRefusalNamesThePathAndTheSetting() {
    CommTopology machine = machine(PeerStatus.ALLOWED, Map.of());
    String reason = ask(0, 4, machine, Map.of(), true).reason();
    assertTrue(reason.contains("rank 4, SYS"), reason);
    assertTrue(reason.contains("PXB; NCCL_P2P_LEVEL"), reason);
    Map<String, String> ignores = Map.of("NCCL_IGNORE_DISABLED_P2P", "1");
    String driver = ask(0, 1, machine((one, other) -> false, ignores), ignores, true).reason();
    assertTrue(driver.contains("the driver does not allow"), driver);
  }

  @Test
  void whatIsNotKnownIsLeftToTheDriver() {
    assertTrue(ask(0, 4, machine(PeerStatus.ALLOWED, Map.of()), Map.of(), false).possible());
    PeerDistances none = new PeerDistances(0, Optional.empty(), Optional.empty(), peer -> true);
    assertTrue(none.directAccess(info(4)).possible());
    PeerDistances off =
        new PeerDistances(
            0,
            Optional.empty(),
            TopoSettings.parse(Map.of("NCCL_P2P_LEVEL", "LOC")).p2pLevel(),
            peer -> true);
    assertFalse(off.directAccess(info(4)).possible());
  }
}
