package org.nccl4j.api.init.topology;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.Devices;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.topo.detect.GpuFacts;
import org.nccl4j.topo.detect.SysFiles;
import org.nccl4j.topo.xml.TopologyXml;

/** The topology of a host, by the files of a user, a hypervisor and the kernel. */
class HostTopologyTest {
  private static final String WITHOUT_GPUS =
      "<system version=\"1\"><cpu numaid=\"3\" arch=\"x86_64\" vendor=\"AuthenticAMD\">"
          + "<pci busid=\"ffff:ff:01.0\" class=\"0x060400\">"
          + "<pci busid=\"0001:00:00.0\" class=\"0x030200\"/></pci></cpu></system>";

  @TempDir private Path root;

  private String made(Map<String, String> settings) {
    return made(settings, HostNics.UNKNOWN);
  }

  private String made(Map<String, String> settings, HostNics nics) {
    GpuFacts gpu =
        new GpuFacts("0001:00:00.0", 0, -1, 80, true, Map.of(), 0, 0, Set.of("0002:00:00.0"));
    TreeMap<Integer, MachineFacts> local = new TreeMap<>();
    local.put(0, new MachineFacts("here", Optional.of(gpu), false, false, false));
    return TopologyXml.write(
        new HostTopology(Settings.alone(settings), new SysFiles(root), local, nics).make(7));
  }

  private static boolean isBelowTheBridge(String topology) {
    return topology.contains("numaid=\"3\"")
        && topology.indexOf("ffff:ff:01.0") < topology.indexOf("<gpu dev=\"0\" sm=\"80\"")
        && topology.contains("ffff:ff:01.0");
  }

  @Test
  void filesWithoutGpusAreTheStartOfTheDetection() throws IOException {
    assertFalse(isBelowTheBridge(made(Map.of())));
    Path named = Files.writeString(root.resolve("named.xml"), WITHOUT_GPUS);
    String topology = made(Map.of("NCCL_TOPO_FILE", named.toString()));
    assertTrue(isBelowTheBridge(topology), topology);
    Path folder = Files.createDirectories(root.resolve("var/run/nvidia-topologyd"));
    Files.writeString(folder.resolve("virtualTopology.xml"), WITHOUT_GPUS);
    assertEquals(topology, made(Map.of()));
  }

  /** Such a file does not stand for an absent machine, and the hypervisor's never does. */
  @Test
  void ranksOnTheHostDeviceNeedAFileWithGpus() throws IOException {
    SysFiles files = new SysFiles(root);
    Path folder = Files.createDirectories(root.resolve("var/run/nvidia-topologyd"));
    String whole = WITHOUT_GPUS.replace("/></pci>", "><gpu dev=\"0\" sm=\"80\"/></pci></pci>");
    Path hypervisors = Files.writeString(folder.resolve("virtualTopology.xml"), whole);
    assertFalse(MachineFacts.of(Devices.host(), Settings.alone(Map.of()), files).fromFile());
    Map<String, String> named = Map.of("NCCL_TOPO_FILE", hypervisors.toString());
    assertTrue(MachineFacts.of(Devices.host(), Settings.alone(named), files).fromFile());
    Files.writeString(hypervisors, WITHOUT_GPUS);
    assertFalse(MachineFacts.of(Devices.host(), Settings.alone(named), files).fromFile());
  }

  @Test
  void forbiddenPeersAreWritten() throws IOException {
    assertTrue(made(Map.of()).contains("nopeers=\"0002:00:00.0\""));
    String whole = WITHOUT_GPUS.replace("/></pci>", "><gpu dev=\"0\" sm=\"80\"/></pci></pci>");
    Path named = Files.writeString(root.resolve("named.xml"), whole);
    String topology = made(Map.of("NCCL_TOPO_FILE", named.toString()));
    assertTrue(topology.contains("nopeers=\"0002:00:00.0\""), topology);
  }

  private void write(String name, String text) throws IOException {
    Path path = root.resolve("sys/class/" + name);
    Files.createDirectories(path.getParent());
    Files.writeString(path, text);
  }

  /** The search must not count on cards that carry nothing. */
  @Test
  void theNetworksDevicesAloneAreInTheTopology() throws IOException {
    for (String port : List.of("mlx5_0/ports/1", "mlx5_1/ports/1", "mlx5_1/ports/2")) {
      write("infiniband/" + port + "/state", "4: ACTIVE");
    }
    for (String name : List.of("eth0", "eth1", "docker0")) {
      write("net/" + name + "/operstate", "up");
    }
    assertEquals("mlx5_0:1 mlx5_1:1 mlx5_1:2", nets(Set.of()));
    assertEquals("mlx5_1:2", nets(Set.of("mlx5_1:2")));
    assertEquals("eth1:0", nets(Set.of("eth1")));
    assertEquals("docker0:0", nets(Set.of("docker0")));
    assertEquals("mlx5_0:1 mlx5_1:1 mlx5_1:2", nets(Set.of("of a plug-in")));
  }

  /** As in NCCL, whose plug-ins' devices are added unless the file has them. */
  @Test
  void filesWithGpusAndWithoutNetworksGetThoseOfTheMachine() throws IOException {
    String whole = WITHOUT_GPUS.replace("/></pci>", "><gpu dev=\"0\" sm=\"80\"/></pci></pci>");
    Path named = Files.writeString(root.resolve("named.xml"), whole);
    Map<String, String> settings = Map.of("NCCL_TOPO_FILE", named.toString());
    assertFalse(made(settings).contains("<net "));
    write("infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
    for (String name : List.of("eth0", "eth1")) {
      write("net/" + name + "/operstate", "up");
    }
    String topology = made(settings);
    assertTrue(isBelowTheBridge(topology), topology);
    assertTrue(topology.contains("nopeers=\"0002:00:00.0\""), topology);
    assertEquals(1, topology.split("<gpu ").length - 1, topology);
    assertEquals("mlx5_0:1", nets(topology));
    assertEquals("eth1:0", nets(made(settings, new HostNics(Set.of("eth1"), Set.of()))));
    Files.writeString(
        named, whole.replace("<gpu ", "<nic><net name=\"mine\" port=\"1\"/></nic><gpu "));
    assertEquals("mine:1", nets(made(settings)));
  }

  /** Numbers of networks that a file has are known to others; those of detection are not. */
  @Test
  void ranksSayWhetherTheirFileHasNetworks() throws IOException {
    SysFiles files = new SysFiles(root);
    String whole = WITHOUT_GPUS.replace("/></pci>", "><gpu dev=\"0\" sm=\"80\"/></pci></pci>");
    Path named = Files.writeString(root.resolve("named.xml"), whole);
    Settings settings = Settings.alone(Map.of("NCCL_TOPO_FILE", named.toString()));
    MachineFacts without = MachineFacts.of(Devices.host(), settings, files);
    assertTrue(without.fromFile());
    assertFalse(without.netsFromFile());
    Files.writeString(named, whole.replace("<gpu ", "<nic><net name=\"mine\"/></nic><gpu "));
    MachineFacts with = MachineFacts.of(Devices.host(), settings, files);
    assertTrue(with.netsFromFile());
    assertEquals(with, MachineFacts.fromBytes(0, with.toBytes()));
    assertEquals(without, MachineFacts.fromBytes(0, without.toBytes()));
  }

  private String nets(Set<String> preferred) {
    return nets(made(Map.of(), new HostNics(preferred, Set.of())));
  }

  private static String nets(String topology) {
    return Pattern.compile("<net name=\"(\\w+)\".* port=\"(\\d+)\"")
        .matcher(topology)
        .results()
        .map(net -> net.group(1) + ":" + net.group(2))
        .collect(Collectors.joining(" "));
  }
}
