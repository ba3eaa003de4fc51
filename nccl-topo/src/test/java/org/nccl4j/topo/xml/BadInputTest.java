package org.nccl4j.topo.xml;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.RandomAccessFile;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;

/** Every bad file gets an error that names file, line and remedy. */
class BadInputTest {
  private static final String CPU =
      "<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"1\" modelid=\"1\">\n";

  private static String pci(String bus, String inside) {
    return "<pci busid=\""
        + bus
        + "\" class=\"0x030200\" link_speed=\"\" link_width=\"16\">"
        + inside
        + "</pci>\n";
  }

  private static String system(String inside) {
    return "<system version=\"1\">\n" + CPU + inside + "</cpu>\n</system>\n";
  }

  private static final String GPU = "<gpu dev=\"0\" sm=\"80\" rank=\"0\"/>";

  private static TopologyException refused(String text) {
    return Assertions.assertTimeoutPreemptively(
        Duration.ofSeconds(60),
        () ->
            assertThrows(
                TopologyException.class,
                () ->
                    Cluster.of(
                        TopologyXml.parseSystem("bad.xml", text), 1, ClusterOptions.DEFAULT)));
  }

  @Test
  void aGoodFileIsRead() {
    Cluster cluster =
        Cluster.of(
            TopologyXml.parseSystem("good.xml", system(pci("0000:01:00.0", GPU))),
            1,
            ClusterOptions.DEFAULT);
    assertEquals(1, cluster.comm().shape().nRanks());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '~',
      value = {
        "<system version=\"2\"/> | 1 | version",
        "<system/> | 1 | version",
        "<graphs version=\"1\"/> | 1 | <system>",
        "<system version=\"1\"/> | 1 | no <gpu>",
        "<system version=\"1\"> | 1 | not closed",
        "<system version=\"1\"><cpu numaid=\"0\"></system> | 1 | closes <cpu>",
        "<system version=\"1\"> text </system> | 1 | text",
        "<system version=1/> | 1 | quoted",
        "<system version=\"1/> | 1 | does not end",
        "<!DOCTYPE a [<!ENTITY b \"c\">]><system version=\"1\"/> | 1 | document types",
        "<!-- never ends | 1 | comment",
        "<system version=\"1\"/><system version=\"1\"/> | 1 | more after",
        "< system version=\"1\"/> | 1 | name",
      })
  void brokenXml(String text, int line, String why) {
    TopologyException e = refused(text);
    assertTrue(e.getMessage().contains(why), e.getMessage());
    assertEquals("bad.xml:" + line, e.where());
    assertFalse(e.remedy().isBlank());
  }

  @Test
  void emptyFile() {
    assertTrue(refused("").getMessage().contains("empty"));
  }

  @Test
  void devicesThatCannotBe() {
    check(system(pci("0000:01:00.0", GPU) + pci("0000:01:00.0", GPU)), "repeats");
    check(
        system(
            pci("0000:01:00.0", GPU)
                + pci("0000:02:00.0", "<gpu dev=\"1\" sm=\"80\" rank=\"0\"/>")),
        "repeats rank 0");
    check(system(pci("0000:01:00.0", "<gpu dev=\"0\" rank=\"0\"/>")), "no attribute 'sm'");
    check(system(pci("0000:01:00.0", "<gpu dev=\"x\" sm=\"80\" rank=\"0\"/>")), "not a number");
    check(system(pci("0000:01:00.0", "<gpu dev=\"0\" sm=\"80\" rank=\"-5\"/>")), "negative");
    check(
        system(pci("0000:01:00.0", GPU).replace("link_width=\"16\"", "link_width=\"-16\"")),
        "not a width");
    check(system(GPU), "put a <gpu> into a <pci>");
    check(system(pci("0000:01:00.0", GPU.replace("dev=", "name=\"\u001b[31m\" dev="))), "control");
    check(
        system(
            pci(
                "0000:01:00.0",
                "<gpu dev=\"0\" sm=\"80\" rank=\"0\"><nvlink target=\"0000:02:00.0\" count=\"-1\""
                    + " tclass=\"0x03\"/></gpu>")),
        "negative");
  }

  @Test
  void aLinkWithoutItsOtherSideIsNamed() {
    String gpu =
        "<gpu dev=\"0\" sm=\"80\" rank=\"0\"><nvlink target=\"0000:02:00.0\" count=\"1\""
            + " tclass=\"0x03\"/></gpu>";
    TopologyException e =
        refused(
            system(
                pci("0000:01:00.0", gpu)
                    + pci("0000:02:00.0", "<gpu dev=\"1\" sm=\"80\" rank=\"1\"/>")));
    assertTrue(e.getMessage().contains("none back"), e.getMessage());
  }

  private static void check(String text, String why) {
    TopologyException e = refused(text);
    assertTrue(e.getMessage().contains(why), e.getMessage());
    assertTrue(e.where().matches("bad.xml:[0-9]+"), e.where());
    assertFalse(e.remedy().isBlank());
  }

  @Test
  void hugeFilesAreRefused() {
    String many = "<system version=\"1\">" + "<cpu/>".repeat(1_000_000) + "</system>";
    assertTrue(refused(many).getMessage().contains("elements"));
    String deep = "<system version=\"1\">" + "<pci>".repeat(100_000);
    assertTrue(refused(deep).getMessage().contains("deeper"));
    String wide = "<system version=\"1\" a=\"" + "x".repeat(1_000_000) + "\"/>";
    assertTrue(refused(wide).getMessage().contains("longer"));
    StringBuilder attributes = new StringBuilder("<system version=\"1\"");
    for (int i = 0; i < 10_000; i++) {
      attributes.append(" a").append(i).append("=\"\"");
    }
    assertTrue(refused(attributes.append("/>").toString()).getMessage().contains("attributes"));
  }

  @Test
  void entitiesAreNotExpanded() {
    XmlElement system =
        TopologyXml.parseSystem("a", "<system version=\"1\" name=\"&lol;&amp;&#65;\"/>");
    assertEquals("&lol;&&#65;", system.require("name"));
  }

  @Test
  void switchCyclesEnd() {
    String a =
        "<pci busid=\"0000:%02d:00.0\" class=\"0x060400\" link_speed=\"\" link_width=\"16\">";
    String text =
        system(
            String.format(a, 8)
                + "<pcilink target=\"0000:09:00.0\"/>"
                + pci("0000:01:00.0", GPU)
                + "</pci>"
                + String.format(a, 9)
                + "<pcilink target=\"0000:08:00.0\"/></pci>");
    Cluster cluster =
        Cluster.of(TopologyXml.parseSystem("cycle.xml", text), 1, ClusterOptions.DEFAULT);
    assertEquals(1, cluster.comm().shape().nRanks());
  }

  @Test
  void whatIsNoFileIsRefused(@TempDir Path folder) throws Exception {
    Path huge = folder.resolve("huge.xml");
    try (RandomAccessFile file = new RandomAccessFile(huge.toFile(), "rw")) {
      file.setLength(1L << 40);
    }
    Path fifo = folder.resolve("fifo");
    Process made = new ProcessBuilder("mkfifo", fifo.toString()).start();
    assertEquals(0, made.waitFor());
    List<Path> files =
        List.of(huge, fifo, folder, Path.of("/dev/zero"), folder.resolve("none.xml"));
    for (Path file : files) {
      TopologyException e =
          Assertions.assertTimeoutPreemptively(
              Duration.ofSeconds(60),
              () -> assertThrows(TopologyException.class, () -> TopologyXml.readSystem(file)));
      assertTrue(e.where().startsWith(file.toString()), e.where());
      assertFalse(e.remedy().isBlank());
    }
  }
}
