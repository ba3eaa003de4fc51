package org.nccl4j.it.topo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.it.cli.Main;

/** The commands print what they say, and refuse bad files with a remedy. */
class TopoCommandTest {
  private static final String GPU =
      "<pci busid=\"0000:0%d:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\""
          + " link_width=\"16\"><gpu dev=\"%d\" sm=\"80\" rank=\"%d\" gdr=\"1\">"
          + "<nvlink target=\"0000:0%d:00.0\" count=\"4\" tclass=\"0x030200\"/></gpu></pci>\n";
  private static final String NIC =
      "<pci busid=\"0000:09:00.0\" class=\"0x020000\" link_speed=\"16.0 GT/s PCIe\""
          + " link_width=\"16\"><nic><net name=\"mlx5_0\" dev=\"0\" speed=\"200000\" port=\"1\""
          + " guid=\"0x1\" gdr=\"1\"/></nic></pci>\n";

  @TempDir Path folder;
  private Path file;
  private final StringWriter out = new StringWriter();
  private final StringWriter err = new StringWriter();

  @BeforeEach
  void write() throws IOException {
    file =
        Files.writeString(
            folder.resolve("two.xml"),
            "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">\n"
                + String.format(GPU, 1, 0, 0, 2)
                + String.format(GPU, 2, 1, 1, 1)
                + NIC
                + "</cpu></system>\n");
  }

  private int run(String... arguments) {
    String[] words = Stream.concat(Stream.of("topo"), Stream.of(arguments)).toArray(String[]::new);
    return Main.run(new PrintWriter(out), new PrintWriter(err), words);
  }

  /** Takes minutes if it searches for rings. */
  @Test
  @Timeout(600)
  void showNeedsNoSearch() throws IOException {
    StringBuilder rack = new StringBuilder("<system version=\"1\">\n");
    for (int gpu = 0; gpu < 576; gpu++) {
      if (gpu % 32 == 0) {
        rack.append(gpu == 0 ? "" : "</cpu>\n");
        rack.append("<cpu numaid=\"%d\" arch=\"arm64\">\n".formatted(gpu / 32));
      }
      rack.append(
          "<pci busid=\"%04x:01:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\""
                  .formatted(gpu)
              + " link_width=\"16\"><gpu dev=\"%d\" sm=\"100\" rank=\"%d\" gdr=\"1\">"
                  .formatted(gpu, gpu)
              + "<nvlink target=\"ffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/>"
              + "</gpu></pci>\n");
    }
    rack.append("</cpu>\n");
    Path large = Files.writeString(folder.resolve("rack.xml"), rack + "</system>\n");
    assertEquals(0, run("show", "--file", large.toString()), err.toString());
    assertTrue(out.toString().contains("NUMA node 17"), out.toString().substring(0, 200));
  }

  @ParameterizedTest
  @ValueSource(strings = {"show", "paths", "graph", "explain", "simulate", "detect"})
  void everyCommandPrintsTextAndJson(String command) throws IOException {
    assertEquals(0, run(command, "--file", file.toString()), err.toString());
    assertTrue(out.toString().lines().count() > 3, out.toString());
    out.getBuffer().setLength(0);
    assertEquals(0, run(command, "--json", "--file", file.toString()), err.toString());
    int tokens = 0;
    try (JsonParser json = new JsonFactory().createParser(out.toString())) {
      while (json.nextToken() != null) {
        tokens++;
      }
    }
    assertTrue(tokens > 10);
  }

  @Test
  void graphsOfSeveralMachinesHaveAllFields() {
    assertEquals(0, run("graph", "--json", "--nodes", "1,2", "--file", file.toString()));
    String json = out.toString();
    for (String field :
        new String[] {
          "gpus",
          "scenarios",
          "1node",
          "2node",
          "domains",
          "channels",
          "paths",
          "rings",
          "trees",
          "tuning",
          "selection"
        }) {
      assertTrue(json.contains("\"" + field + "\""), field);
    }
  }

  private String simulated(int nodes, String... more) {
    out.getBuffer().setLength(0);
    List<String> words =
        new ArrayList<>(
            List.of("simulate", "--nodes", Integer.toString(nodes), "--file", file.toString()));
    words.addAll(List.of(more));
    assertEquals(0, run(words.toArray(String[]::new)), err.toString());
    return out.toString();
  }

  private static String row(String text, String operation, long bytes) {
    return text.lines()
        .filter(line -> line.matches(operation + " +" + bytes + " .*"))
        .findFirst()
        .orElse("");
  }

  /** Every operation of every size that has an element for each rank. */
  @Test
  void aSimulationHasARowForEachChoice() {
    String text = simulated(512);
    assertTrue(text.contains("512 machines, 1024 ranks: "), text);
    assertTrue(text.contains("1024 GPUs on 512 hosts over a network, 5 channels"), text);
    String sum = row(text, "AllReduce", 1 << 20);
    assertTrue(
        sum.matches("AllReduce +1048576 +Tree +Simple +4 +[0-9.]+ +\\[1\\] +[0-9.]+ +Tree LL.*"),
        text);
    assertTrue(row(text, "AllToAll", 4096).contains("if NCCL_ALGO names it"), text);
    assertEquals("", row(text, "AllToAll", 1024), "a byte for each rank");
    assertTrue(!row(text, "Send", 1024).isEmpty() && !row(text, "Send", 1L << 32).isEmpty(), text);
    assertTrue(text.contains("have another way. There the next best takes"), text);
    assertTrue(text.contains("[1] topology, NCCL's tables"), text);
  }

  @Test
  void aSimulationChoosesWhatTheSettingsAllow() {
    assertTrue(
        row(simulated(512, "--set", "NCCL_ALGO=ring"), "AllReduce", 1024).contains(" Ring "),
        out.toString());
    assertTrue(
        row(simulated(512, "--set", "NCCL_ALGO=alltoall:rails"), "AllToAll", 4096)
            .contains(" Rails "),
        out.toString());
    assertTrue(
        simulated(4, "--set", "NCCL_NCHANNELS_PER_NET_PEER=3", "--set", "NCCL_NET=Socket")
            .contains("8 GPUs on 4 hosts over a network, 3 channels\n"),
        out.toString());
  }

  /** As one that names no network. */
  @Test
  void aSimulationTakesAListOfNoNames() {
    String none = simulated(2);
    assertEquals(none, simulated(2, "--set", "NCCL_NET=,"));
    assertEquals(
        simulated(2, "--set", "NCCL_NET=Socket"), simulated(2, "--set", "NCCL_NET= Socket ,IB"));
  }

  @Test
  void aModelWithoutMeasuredTimesIsNamed() {
    String known = "NVIDIA H200";
    assertFalse(simulated(1, "--model", known).contains("no measured times"), out.toString());
    String unknown = simulated(1, "--model", "NVIDIA H201");
    assertTrue(unknown.contains("no measured times of 2 NVIDIA H201 on 1 machine"), unknown);
    String more = simulated(2, "--model", known);
    assertTrue(more.contains("no measured times of 4 NVIDIA H200 on 2 machines"), more);
  }

  @Test
  void aSimulationInJsonHasAllFields() {
    String json = simulated(512, "--json");
    for (String field :
        List.of(
            "ranks",
            "treeDepths",
            "costs",
            "predictions",
            "collective",
            "bytes",
            "algorithm",
            "protocol",
            "timeUs",
            "channels",
            "source",
            "savesUs",
            "others",
            "onlyIfNamed")) {
      assertTrue(json.contains("\"" + field + "\""), field);
    }
  }

  @Test
  void aSimulationOfTooManyRanksIsRefused() {
    assertEquals(1, run("simulate", "--nodes", "65537", "--file", file.toString()));
    assertTrue(err.toString().contains("ask for 1 to 65536 machines"), err.toString());
  }

  private static String pci(int bus, String inside) {
    return "<pci busid=\"0000:0%x:00.0\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\""
            .formatted(bus)
        + " link_width=\"16\">"
        + inside
        + "</pci>\n";
  }

  private static String plainGpu(int bus, int rank) {
    return pci(bus, "<gpu dev=\"%d\" sm=\"80\" rank=\"%d\" gdr=\"1\"/>".formatted(rank, rank));
  }

  private static String switchLink(int bus) {
    return "<pcilink target=\"0000:0%x:00.0\"/>".formatted(bus);
  }

  private String paths(String... switches) throws IOException {
    Path system =
        Files.writeString(
            folder.resolve("system.xml"),
            "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">\n"
                + String.join("", switches)
                + "</cpu></system>\n");
    assertEquals(
        0,
        run("paths", "--json", "--p2p-status", "on", "--file", system.toString()),
        err.toString());
    return out.toString();
  }

  /** A link between two switches is a hop, other than the one from a GPU's rank to its device. */
  @Test
  void linksOfSwitchesAreCountedAmongTheHops() throws IOException {
    String json =
        paths(
            pci(8, switchLink(10) + plainGpu(1, 0)), pci(10, switchLink(8) + plainGpu(2, 1) + NIC));
    String from = json.substring(json.indexOf("\"GPU0\""), json.indexOf("\"GPU1\""));
    assertTrue(from.contains("[\"PXB\",24.0,3,5]"), from);
    assertTrue(from.contains("\"NET\":[[\"PXB\",24.0,4,5]]"), from);
  }

  /** Each GPU has the network on a card beside it. */
  @Test
  void aNetworkOnSeveralCardsIsThreeHopsFromTheGpusBesideThem() throws IOException {
    String json =
        paths(
            pci(8, plainGpu(1, 0) + NIC),
            pci(10, plainGpu(2, 1) + NIC.replace("0000:09:", "0000:0b:")));
    for (String gpu : new String[] {"GPU0", "GPU1"}) {
      String from = json.substring(json.indexOf("\"" + gpu + "\":{"));
      String nets = from.substring(from.indexOf("\"NET\""));
      assertTrue(nets.startsWith("\"NET\":[[\"PIX\",24.0,3,4]"), gpu + ": " + nets);
    }
  }

  @Test
  void settingsAct() {
    run("graph", "--set", "NCCL_MAX_NCHANNELS=2", "--file", file.toString());
    assertTrue(out.toString().contains(": 2 channels"), out.toString());
  }

  @Test
  void picturesAndFilesAreWritten() throws IOException {
    Path svg = folder.resolve("two.svg");
    assertEquals(0, run("show", "--svg", svg.toString(), "--file", file.toString()));
    assertTrue(Files.readString(svg).contains("GPU 1"));
    Path dump = folder.resolve("dump.xml");
    assertEquals(0, run("detect", "--dump", dump.toString(), "--file", file.toString()));
    assertEquals(0, run("graph", "--file", dump.toString()));
  }

  @Test
  void dumpsAreWrittenWhereSettingsAsk() throws IOException {
    Path topology = folder.resolve("topology.xml");
    Path graphs = folder.resolve("graphs.xml");
    String[] asked = {
      "graph",
      "--file",
      file.toString(),
      "--set",
      "NCCL_TOPO_DUMP_FILE=" + topology,
      "--set",
      "NCCL_GRAPH_DUMP_FILE=" + graphs
    };
    assertEquals(0, run(asked), err.toString());
    assertTrue(Files.readString(topology).contains("<gpu dev=\"1\""));
    assertTrue(Files.readString(graphs).contains("<graph id=\"0\" pattern=\"4\""));
    out.getBuffer().setLength(0);
    String read = "NCCL_GRAPH_FILE=" + graphs;
    assertEquals(0, run("graph", "--xml", "--file", topology.toString(), "--set", read));
    assertEquals(Files.readString(graphs), out.toString());
    assertEquals(
        1,
        run(
            "show",
            "--file",
            file.toString(),
            "--set",
            "NCCL_GRAPH_DUMP_FILE=" + graphs,
            "--set",
            "NCCL_GRAPH_DUMP_FILE_RANK=9"));
    assertTrue(err.toString().contains("NCCL_GRAPH_DUMP_FILE_RANK=9"), err.toString());
    assertTrue(err.toString().contains("topo show: no graph"), err.toString());
    assertTrue(err.toString().contains("\n  remedy: name one of"), err.toString());
    assertEquals(1, run("show", "--file", file.toString(), "--set", "NCCL_TOPO_DUMP_FILE=/no/a"));
    assertTrue(
        err.toString()
            .contains("NCCL_TOPO_DUMP_FILE /no/a cannot be written (there is no folder /no)"),
        err.toString());
  }

  @Test
  void aFileThatCannotBeWrittenIsNamedWithItsOption() {
    for (String[] option : new String[][] {{"detect", "--dump"}, {"show", "--svg"}}) {
      err.getBuffer().setLength(0);
      assertEquals(1, run(option[0], option[1], "/no/a", "--file", file.toString()));
      String said = option[1] + " /no/a cannot be written (there is no folder /no)";
      assertTrue(err.toString().contains(said), err.toString());
    }
  }

  @Test
  void whatIsDetectedIsPrintedAsJson() throws IOException {
    assertEquals(0, run("detect", "--json", "--file", file.toString()), err.toString());
    String json = out.toString();
    assertTrue(json.contains("\"gpu\":[{\"dev\":1,\"sm\":80,\"rank\":1"), json);
    assertTrue(json.contains("\"nvlink\":[{\"target\":\"0000:02:00.0\",\"count\":4"), json);
    out.getBuffer().setLength(0);
    // An empty recorded machine has nothing in it, and says where it looked.
    Files.createDirectory(folder.resolve("sys"));
    assertEquals(0, run("detect", "--json", "--root", folder.toString()), err.toString());
    assertTrue(out.toString().contains("\"gpusFrom\":\"PCI, without NVLinks"), out.toString());
    assertTrue(out.toString().contains("\"system\":{\"version\":1}"), out.toString());
  }

  @Test
  void settingsLeaveOutNetworkCards() throws IOException {
    for (String port : List.of("infiniband/mlx5_0/ports/1", "infiniband/mlx5_1/ports/1")) {
      Path there = Files.createDirectories(folder.resolve("sys/class/" + port));
      Files.writeString(there.resolve("state"), "4: ACTIVE");
    }
    for (String name : List.of("eth0", "eth1")) {
      Path there = Files.createDirectories(folder.resolve("sys/class/net/" + name));
      Files.writeString(there.resolve("operstate"), "up");
    }
    assertEquals("mlx5_0 mlx5_1", cards());
    assertEquals("mlx5_1", cards("--set", "NCCL_IB_HCA=^mlx5_0"));
    assertEquals("eth0 eth1", cards("--set", "NCCL_IB_DISABLE=1"));
    assertEquals("eth1", cards("--set", "NCCL_NET=Socket", "--set", "NCCL_SOCKET_IFNAME=eth1"));
  }

  private String cards(String... settings) {
    out.getBuffer().setLength(0);
    String[] given = {"detect", "--root", folder.toString()};
    Stream<String> all = Stream.concat(Stream.of(given), Stream.of(settings));
    assertEquals(0, run(all.toArray(String[]::new)), err.toString());
    return Pattern.compile("<net name=\"(\\w+)\"")
        .matcher(out.toString())
        .results()
        .map(net -> net.group(1))
        .collect(Collectors.joining(" "));
  }

  /** A cloud's file, whose PCI tree the machine does not show. */
  @Test
  void aMachinesFileWithoutGpusIsTheStartOfItsDetection() throws IOException {
    Path gpu = Files.createDirectories(folder.resolve("sys/bus/pci/devices/0001:00:00.0"));
    Files.writeString(gpu.resolve("vendor"), "0x10de");
    Files.writeString(gpu.resolve("class"), "0x030200");
    Path own = Files.createDirectories(folder.resolve("var/run/nvidia-topologyd"));
    Files.writeString(
        own.resolve("virtualTopology.xml"),
        "<system version=\"1\"><cpu numaid=\"3\" arch=\"x86_64\" vendor=\"AuthenticAMD\">"
            + "<pci busid=\"ffff:ff:01.0\" class=\"0x060400\">"
            + "<pci busid=\"0001:00:00.0\"/></pci></cpu></system>");
    assertEquals(0, run("detect", "--root", folder.toString()), err.toString());
    assertTrue(out.toString().contains("numaid=\"3\""), out.toString());
    assertTrue(out.toString().contains("<gpu dev=\"0\""), out.toString());
    assertTrue(
        out.toString().indexOf("ffff:ff:01.0") < out.toString().indexOf("<gpu "), out.toString());
  }

  /** The same file, named by --file, may be another machine's, and nothing is added to it. */
  @Test
  void aMachinesFileWithoutNetworksGetsThoseOfTheMachine() throws IOException {
    Path eth = Files.createDirectories(folder.resolve("sys/class/net/eth0"));
    Files.writeString(eth.resolve("operstate"), "up");
    Path own = Files.createDirectories(folder.resolve("var/run/nvidia-topologyd"));
    Path whole =
        Files.writeString(
            own.resolve("virtualTopology.xml"),
            "<system version=\"1\"><cpu numaid=\"3\" arch=\"x86_64\" vendor=\"AuthenticAMD\">"
                + "<pci busid=\"0001:00:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\""
                + " link_width=\"16\"><gpu dev=\"0\" sm=\"80\" rank=\"0\"/></pci></cpu></system>");
    assertEquals("eth0", cards());
    assertTrue(out.toString().contains("<gpu dev=\"0\""), out.toString());
    assertEquals(0, run("graph", "--root", folder.toString(), "--nodes", "2"), err.toString());
    assertEquals(1, run("graph", "--file", whole.toString(), "--nodes", "2"));
    assertTrue(err.toString().contains("add a <net>"), err.toString());
  }

  @Test
  void aRootWithoutARecordedMachineIsRefused() {
    assertEquals(2, run("detect", "--root", folder.toString()));
    assertTrue(err.toString().contains("--root " + folder + " has no folder sys"), err.toString());
    Path none = folder.resolve("none");
    assertEquals(2, run("detect", "--root", none.toString()));
    assertTrue(err.toString().contains("--root: there is no folder " + none), err.toString());
    assertEquals("", out.toString());
  }

  /** Numbers of JSON have no leading zeros. */
  @Test
  void numbersThatAreNoneOfJsonAreTexts() throws IOException {
    String text = Files.readString(file).replaceFirst("link_width=\"16\"", "link_width=\"016\"");
    Path other = Files.writeString(folder.resolve("zeros.xml"), text);
    assertEquals(0, run("detect", "--json", "--file", other.toString()), err.toString());
    assertTrue(out.toString().contains("\"link_width\":\"016\""), out.toString());
    assertTrue(out.toString().contains("\"link_width\":16"), out.toString());
  }

  @Test
  void badFilesAreRefusedWithARemedy() throws IOException {
    Path bad = Files.writeString(folder.resolve("bad.xml"), "<system version=\"2\"/>");
    assertEquals(1, run("graph", "--file", bad.toString()));
    assertTrue(err.toString().contains("bad.xml:1"), err.toString());
    assertEquals(0, run("show", "--file", "dgx-h100"), err.toString());
    assertTrue(out.toString().contains("H100") || out.toString().contains("GPU"), out.toString());
    out.getBuffer().setLength(0);
    Path none = folder.resolve("none.xml");
    assertEquals(1, run("show", "--file", none.toString()));
    assertTrue(
        err.toString().contains(none + " cannot be read: there is no such file"), err.toString());
    assertEquals("", out.toString());
  }
}
