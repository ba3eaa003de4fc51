package org.nccl4j.topo.search;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.nccl4j.topo.TestMachines;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.path.PeerStatus;
import org.nccl4j.topo.xml.TopologyXml;

/** Graphs that were written are used instead of a search. */
class GraphFileTest {
  @TempDir Path folder;

  @ParameterizedTest
  @MethodSource("org.nccl4j.topo.TestMachines#networked")
  void writtenGraphsAreReadBack(String name) throws IOException {
    Cluster searched = Cluster.of(TestMachines.read(name), 2, ClusterOptions.DEFAULT);
    if (searched.domains().size() > 1) {
      return;
    }
    String text = TopologyXml.write(GraphFile.write(searched.domains().get(0)));
    Path file = Files.writeString(folder.resolve("graph.xml"), text);
    MachineGraphs read = read(name, file).domains().get(0);
    assertEquals(text, TopologyXml.write(GraphFile.write(read)));
  }

  private static Cluster read(String name, Path file) {
    TopoSettings settings = new TopoSettings(Map.of("NCCL_GRAPH_FILE", file.toString()));
    return Cluster.of(
        TestMachines.read(name), 2, new ClusterOptions(settings, PeerStatus.ALLOWED, false));
  }

  @Test
  void graphsOfAnotherMachineAreRefused() throws IOException {
    Cluster other = Cluster.of(TestMachines.read("dgx-a100"), 2, ClusterOptions.DEFAULT);
    String text = TopologyXml.write(GraphFile.write(other.domains().get(0)));
    Path file = Files.writeString(folder.resolve("other.xml"), text);
    assertThrows(TopologyException.class, () -> read("gb200-tray", file));
  }
}
