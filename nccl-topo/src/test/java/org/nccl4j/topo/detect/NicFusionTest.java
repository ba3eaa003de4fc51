package org.nccl4j.topo.detect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;

/**
 * A host with a dual-port card and a second card below one switch, a third card on a root port of
 * the same socket, and one on the other socket.
 */
class NicFusionTest {
  private static final String TEXT =
      """
      <system version="1">
        <cpu numaid="0">
          <pci busid="0000:10:00.0" class="0x060400" link_speed="" link_width="16">
            <pci busid="0000:11:00.0" class="0x020700" link_speed="" link_width="16">
              <nic>
                <net name="a" dev="0" speed="100000" port="1" rail="0"/>
                <net name="b" dev="1" speed="100000" port="2" rail="1"/>
              </nic>
            </pci>
            <pci busid="0000:12:00.0" class="0x020700" link_speed="" link_width="8">
              <nic><net name="c" dev="2" speed="200000" port="1" rail="0"/></nic>
            </pci>
          </pci>
          <pci busid="0000:20:00.0" class="0x020700" link_speed="" link_width="8">
            <nic><net name="d" dev="3" speed="200000" port="1" rail="0"/></nic>
          </pci>
        </cpu>
        <cpu numaid="1">
          <pci busid="0000:80:00.0" class="0x020700" link_speed="" link_width="16">
            <nic><net name="e" dev="4" speed="400000" port="1" rail="1"/></nic>
          </pci>
        </cpu>
      </system>
      """;

  private static XmlElement fuse(String... settings) {
    Map<String, String> values = new HashMap<>();
    for (String setting : settings) {
      values.put(setting.split("=")[0], setting.split("=")[1]);
    }
    return NicFusion.fuse(TopologyXml.parseSystem("host.xml", TEXT), TopoSettings.parse(values));
  }

  private static List<XmlElement> nets(XmlElement element) {
    List<XmlElement> nets = new ArrayList<>();
    if (element.is("net")) {
      nets.add(element);
    }
    element.children().forEach(child -> nets.addAll(nets(child)));
    return nets;
  }

  private static String names(XmlElement system) {
    return String.join(
        " ", nets(system).stream().map(net -> net.require("name")).sorted().toList());
  }

  /** Soft-RoCE has devices of its own, which are no ports of a card. */
  @Test
  void networksWithoutACardStayAsTheyAre() {
    String text =
        """
        <system version="1">
          <cpu numaid="0">
            <nic>
              <net name="rxe0" dev="0" speed="10000" port="1"/>
              <net name="rxe1" dev="1" speed="10000" port="1"/>
            </nic>
          </cpu>
        </system>
        """;
    XmlElement system = TopologyXml.parseSystem("host.xml", text);
    for (String level : List.of("PORT", "PHB", "SYS")) {
      TopoSettings settings = TopoSettings.parse(Map.of("NCCL_NET_MERGE_LEVEL", level));
      assertEquals("rxe0 rxe1", names(NicFusion.fuse(system, settings)));
    }
    TopoSettings forced = TopoSettings.parse(Map.of("NCCL_NET_FORCE_MERGE", "rxe0,rxe1"));
    TopologyException e =
        assertThrows(TopologyException.class, () -> NicFusion.fuse(system, forced));
    assertTrue(e.getMessage().contains("is on no PCI device"), e.getMessage());
  }

  @ParameterizedTest
  @CsvSource({
    "LOC, a b c d e",
    "PORT, a+b c d e",
    "PIX, a+b+c d e",
    "PXB, a+b+c d e",
    "PHB, a+b+c+d e",
  })
  void theLevelSaysHowFarApartPortsMayBe(String level, String expected) {
    assertEquals(expected, names(fuse("NCCL_NET_MERGE_LEVEL=" + level)));
  }

  @Test
  void portsOfOneCardAreFusedOnIt() {
    XmlElement fused =
        nets(fuse()).stream()
            .filter(n -> n.require("name").equals("a+b"))
            .findFirst()
            .orElseThrow();
    assertEquals("200000", fused.require("speed"));
    assertEquals("5", fused.require("dev"));
    assertEquals("1", fused.require("port"));
    // Its ports are on different rails.
    assertTrue(fused.text("rail").isEmpty());
    assertEquals("0000:11:00.0", fused.parent().parent().require("busid"));
  }

  @Test
  void cardsBelowASwitchGetOneOfTheirOwn() {
    XmlElement fused = nets(fuse("NCCL_NET_MERGE_LEVEL=PIX")).get(0);
    XmlElement card = fused.parent().parent();
    assertEquals("0000:11:00.1", card.require("busid"));
    assertEquals("24", card.require("link_width"));
    assertEquals("0000:10:00.0", card.parent().require("busid"));
    assertEquals("24", card.parent().require("link_width"));
    assertEquals(1, card.parent().children().size());
  }

  @Test
  void cardsOfASocketGetOneAtIt() {
    XmlElement fused =
        nets(fuse("NCCL_NET_MERGE_LEVEL=PHB")).stream()
            .filter(net -> net.require("name").contains("+"))
            .findFirst()
            .orElseThrow();
    XmlElement card = fused.parent().parent();
    assertEquals("cpu", card.parent().name());
    // The switch lets 16 of its cards' 24 lanes through; the third card adds 8.
    assertEquals("24", card.require("link_width"));
    assertEquals("600000", fused.require("speed"));
  }

  @Test
  void railsStayApartWhereAsked() {
    assertEquals(
        "a+c+d b e", names(fuse("NCCL_NET_MERGE_LEVEL=PHB", "NCCL_NET_MERGE_POLICY=RAIL")));
  }

  @Test
  void groupsAreNamed() {
    assertEquals("a b+c d e", names(fuse("NCCL_NET_MERGE_LEVEL=LOC", "NCCL_NET_FORCE_MERGE=b,c")));
    assertEquals("a+b c+d e", names(fuse("NCCL_NET_FORCE_MERGE=c:1,d;a,b")));
    for (String wrong : new String[] {"a,x", "a:2,b", "a,a"}) {
      TopologyException e =
          assertThrows(TopologyException.class, () -> fuse("NCCL_NET_FORCE_MERGE=" + wrong), wrong);
      assertTrue(e.getMessage().contains("NCCL_NET_FORCE_MERGE=" + wrong), e.getMessage());
    }
  }

  @Test
  void socketsAreNotBridged() {
    TopologyException e =
        assertThrows(TopologyException.class, () -> fuse("NCCL_NET_MERGE_LEVEL=SYS"));
    assertTrue(e.getMessage().contains("different NUMA nodes"), e.getMessage());
    assertThrows(TopologyException.class, () -> fuse("NCCL_NET_FORCE_MERGE=d,e"));
  }

  @Test
  void theOriginalIsNotChanged() {
    XmlElement original = TopologyXml.parseSystem("host.xml", TEXT);
    String before = TopologyXml.write(original);
    NicFusion.fuse(original, TopoSettings.defaults());
    assertEquals(before, TopologyXml.write(original));
  }
}
