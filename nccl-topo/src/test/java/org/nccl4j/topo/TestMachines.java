package org.nccl4j.topo;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.path.PeerStatus;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;

/** The machines of the tests: made for them, from public facts. */
public final class TestMachines {
  private static final List<String> WITHOUT_NET = List.of("pcie-2-amd", "pcie-2-intel", "vm-4h100");

  /** Machines that have been searched: several tests look at the same. */
  private static final Map<String, Cluster> CLUSTERS = new ConcurrentHashMap<>();

  private TestMachines() {}

  /** All but the rack, which has tests of its own. */
  public static Stream<String> names() {
    return Stream.of(
        "arm-2a100",
        "dgx-a100",
        "dgx-b200",
        "dgx-h100",
        "dgx1-v100",
        "dgx2-v100",
        "gb200-tray",
        "gh200-quad",
        "h100-two-planes",
        "hgx-h100-2nic",
        "pcie-2-amd",
        "pcie-2-intel",
        "pcie-4-bridge",
        "pcie-8-amd",
        "pcie-8-intel",
        "power9-6v100",
        "vm-4h100");
  }

  /** Those that can be several. */
  public static Stream<String> networked() {
    return names().filter(name -> !WITHOUT_NET.contains(name));
  }

  /** A machine's file. */
  @SuppressWarnings("exports") // to tests of other packages
  public static XmlElement read(String name) {
    return TopologyXml.parseSystem(name + ".xml", text("machines/" + name + ".xml"));
  }

  /** So many machines of one kind, without CollNet. */
  @SuppressWarnings("exports") // to tests of other packages
  public static Cluster cluster(String name, int machines, Map<String, String> settings) {
    return CLUSTERS.computeIfAbsent(
        name + " " + machines + " " + new TreeMap<>(settings),
        unused ->
            Cluster.of(
                read(name),
                machines,
                new ClusterOptions(TopoSettings.parse(settings), PeerStatus.ALLOWED, false)));
  }

  /** The text of a test resource. */
  public static String text(String resource) {
    try (InputStream in = TestMachines.class.getResourceAsStream(resource)) {
      if (in == null) {
        throw new IllegalArgumentException("no test resource " + resource);
      }
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
