package org.nccl4j.topo.search;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.nccl4j.topo.TestMachines;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.path.PeerStatus;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;

/** Graphs that were written are used instead of a search. */
class GraphFileTest {
  @TempDir Path folder;

  @ParameterizedTest
  @MethodSource("org.nccl4j.topo.TestMachines#networked")
  void writtenGraphsAreReadBack(String name) throws IOException {
    Cluster searched = TestMachines.cluster(name, 2, Map.of());
    if (searched.domains().size() > 1) {
      return;
    }
    String text = TopologyXml.write(GraphFile.write(searched.domains().get(0)));
    Path file = Files.writeString(folder.resolve("graph.xml"), text);
    MachineGraphs read = read(name, file).domains().get(0);
    assertEquals(text, TopologyXml.write(GraphFile.write(read)));
  }

  private static Cluster read(String name, Path file) {
    TopoSettings settings = TopoSettings.parse(Map.of("NCCL_GRAPH_FILE", file.toString()));
    return Cluster.of(
        TestMachines.read(name), 2, new ClusterOptions(settings, PeerStatus.ALLOWED, false));
  }

  @Test
  void graphsOfAnotherMachineAreRefused() throws IOException {
    Cluster other = TestMachines.cluster("dgx-a100", 2, Map.of());
    String text = TopologyXml.write(GraphFile.write(other.domains().get(0)));
    Path file = Files.writeString(folder.resolve("other.xml"), text);
    assertThrows(TopologyException.class, () -> read("gb200-tray", file));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '~',
      value = {
        "pattern=\"4\" | pattern=\"9\" | pattern 9",
        "nchannels=\"2\" | nchannels=\"-1\" | nchannels",
        "nchannels=\"2\" | nchannels=\"3\" | nchannels",
        "speedintra=\" | speedintra=\"-1 | not a speed",
        "speedintra=\" | speedintra=\"x | not a number",
        "typeintra=\" | typeintra=\"Q | not a path type",
        "<channel> | <channel><gpu dev=\"0x77\"/> | not a GPU of this machine",
        "<channel> | <channel><gpu dev=\"0\" rank=\"0\"/> | different GPUs",
        "<channel> | <channel><net dev=\"0x77\"/> | not a network of this machine",
        "version=\"1\" | version=\"3\" | version 3",
        "</graphs> | ~~ | not closed",
      })
  void wrongGraphsAreRefusedWithFileAndLine(String good, String bad, String why)
      throws IOException {
    String text = graphs("pcie-2-amd");
    assertTrue(text.contains(good), text);
    Path file = Files.writeString(folder.resolve("wrong.xml"), text.replaceFirst(good, bad));
    TopologyException e = assertThrows(TopologyException.class, () -> readOne("pcie-2-amd", file));
    assertTrue(e.getMessage().contains(why), e.getMessage());
    assertTrue(e.where().matches(".*wrong.xml:[0-9]+"), e.where());
    assertFalse(e.remedy().isBlank());
  }

  /** Random damage is read, or refused by an error of ours; the seed is in every failure. */
  @Test
  @Timeout(600)
  void damagedGraphsAreReadOrRefused() {
    long seed = Long.getLong("nccl4j.seed", 1);
    String good = graphs("pcie-4-bridge");
    Machine machine =
        Cluster.routes(TestMachines.read("pcie-4-bridge"), ClusterOptions.DEFAULT).machine();
    int refused = 0;
    for (int round = 0; round < 2000; round++) {
      Random random = new Random(seed + round);
      StringBuilder text = new StringBuilder(good);
      for (int times = random.nextInt(4); times >= 0; times--) {
        int at = random.nextInt(text.length());
        switch (random.nextInt(3)) {
          case 0 -> text.delete(at, Math.min(text.length(), at + random.nextInt(40)));
          case 1 -> text.setCharAt(at, (char) ('-' + random.nextInt(14)));
          default -> text.insert(at, "<gpu dev=\"0x1\"/>");
        }
      }
      try {
        XmlElement read = TopologyXml.parseGraphs("fuzz.xml", text.toString());
        for (GraphKind kind : GraphKind.values()) {
          GraphFile.read(read, kind, machine, TopoSettings.defaults());
        }
      } catch (TopologyException e) {
        refused++;
        assertFalse(e.remedy().isBlank());
      } catch (RuntimeException | StackOverflowError e) {
        fail("seed " + (seed + round) + ", run with -Dnccl4j.seed", e);
      }
    }
    assertTrue(refused > 0, "no damage was noticed");
  }

  private static String graphs(String name) {
    Cluster cluster = TestMachines.cluster(name, 1, Map.of());
    return TopologyXml.write(GraphFile.write(cluster.domains().get(0)));
  }

  private static Cluster readOne(String name, Path file) {
    TopoSettings settings = TopoSettings.parse(Map.of("NCCL_GRAPH_FILE", file.toString()));
    return Cluster.of(
        TestMachines.read(name), 1, new ClusterOptions(settings, PeerStatus.ALLOWED, false));
  }
}
