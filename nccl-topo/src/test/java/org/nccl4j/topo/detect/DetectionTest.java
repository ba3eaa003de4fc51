package org.nccl4j.topo.detect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;

/** A recorded host: a switch with a GPU and a dual-port card on one socket, a GPU on the other. */
class DetectionTest {
  private static final String ROOT_0 = "devices/pci0000:15/";
  private static final String SWITCH = ROOT_0 + "0000:15:01.0/0000:16:00.0/";
  private static final String GPU_0 = SWITCH + "0000:17:00.0/0000:1b:00.0";
  private static final String CARD = SWITCH + "0000:17:01.0/0000:18:00.";
  private static final String GPU_1 = "devices/pci0000:80/0000:80:01.0/0000:81:00.0";

  @TempDir Path root;
  private SysFiles files;

  @BeforeEach
  void record() throws IOException {
    device(ROOT_0 + "0000:15:01.0", "0x060400", "0x8086", "32.0 GT/s PCIe", 16, 0);
    device(ROOT_0 + "0000:15:01.0/0000:16:00.0", "0x060400", "0x1000", "32.0 GT/s PCIe", 16, 0);
    device(SWITCH + "0000:17:00.0", "0x060400", "0x1000", "32.0 GT/s PCIe", 16, 0);
    device(SWITCH + "0000:17:01.0", "0x060400", "0x1000", "16.0 GT/s PCIe", 8, 0);
    device(GPU_0, "0x030200", "0x10de", "32.0 GT/s PCIe", 16, 0);
    device(CARD + "0", "0x020700", "0x15b3", "32.0 GT/s PCIe", 16, 0);
    device(CARD + "1", "0x020700", "0x15b3", "32.0 GT/s PCIe", 16, 0);
    device("devices/pci0000:80/0000:80:01.0", "0x060400", "0x8086", "16.0 GT/s PCIe", 16, 1);
    device(GPU_1, "0x030200", "0x10de", "32.0 GT/s PCIe", 16, 1);
    write("sys/devices/system/node/node0/cpumap", "0000ffff");
    write("sys/devices/system/node/node1/cpumap", "ffff0000");
    write(
        "proc/cpuinfo",
        "processor\t: 0\n"
            + "vendor_id\t: AuthenticAMD\n"
            + "cpu family\t: 23\n"
            + "model\t\t: 49\n"
            + "model name : x");
    for (int port = 0; port < 2; port++) {
      String ib = "sys/class/infiniband/mlx5_" + port;
      write(ib + "/ports/1/state", "4: ACTIVE");
      write(ib + "/ports/1/rate", "200 Gb/sec (4X HDR)");
      write(ib + "/sys_image_guid", "b8ce:f603:00aa:0001");
      Files.createSymbolicLink(root.resolve(ib + "/device"), root.resolve("sys/" + CARD + port));
    }
    write("sys/class/infiniband/mlx5_2/ports/1/state", "1: DOWN");
    Files.createDirectories(root.resolve("sys/module/nvidia_peermem"));
    files = new SysFiles(root);
  }

  private void device(String at, String cls, String vendor, String speed, int width, int numa)
      throws IOException {
    String folder = "sys/" + at + "/";
    write(folder + "class", cls);
    write(folder + "vendor", vendor);
    write(folder + "device", "0x2330");
    write(folder + "max_link_speed", speed);
    write(folder + "max_link_width", String.valueOf(width));
    write(folder + "numa_node", String.valueOf(numa));
    Path link = root.resolve("sys/bus/pci/devices/" + Path.of(at).getFileName());
    Files.createDirectories(link.getParent());
    Files.createSymbolicLink(link, root.resolve("sys/" + at));
  }

  private void write(String file, String text) throws IOException {
    Path path = root.resolve(file);
    Files.createDirectories(path.getParent());
    Files.writeString(path, text + "\n");
  }

  @Test
  void theTreeIsFound() {
    XmlElement system =
        Detection.of(files, new HostFacts(7, GpuScan.of(files), NetworkScan.of(files)));
    String text = TopologyXml.write(system);
    assertEquals(2, system.children().size(), text);
    XmlElement cpu = system.children().get(0);
    assertEquals("143", cpu.require("familyid"));
    assertEquals("0000ffff", cpu.require("affinity"));
    XmlElement top = cpu.children().get(0);
    assertEquals("0000:16:00.0", top.require("busid"));
    assertEquals(
        List.of("0000:18:00.0", "0000:1b:00.0"),
        top.children().stream().map(child -> child.require("busid")).toList());
    XmlElement card = top.children().get(0);
    assertEquals("16.0 GT/s PCIe", card.require("link_speed"));
    assertEquals("8", card.require("link_width"));
    assertEquals(2, card.child("nic").orElseThrow().children().size());
    assertEquals(text, TopologyXml.write(TopologyXml.parseSystem("again", text)));
  }

  @Test
  void whatWasFoundCanBeUsed() {
    GpuFacts first = gpu("0000:1b:00.0", 0, Map.of("0000:81:00.0", 12));
    GpuFacts second = gpu("0000:81:00.0", 1, Map.of("0000:1b:00.0", 12));
    XmlElement system =
        Detection.of(files, new HostFacts(7, List.of(first, second), NetworkScan.of(files)));
    Routes routes = Cluster.of(system, 2, ClusterOptions.DEFAULT).whole();
    Node gpu = routes.machine().gpus().get(0);
    Node peer = routes.machine().gpus().get(1);
    assertEquals(PathType.NVL, routes.paths().path(gpu, peer).type());
    assertEquals(PathType.PIX, routes.paths().path(gpu, routes.machine().nets().get(0)).type());
    assertEquals(PathType.PXN, routes.paths().path(peer, routes.machine().nets().get(0)).type());
    assertEquals(12.0f, routes.paths().path(gpu, routes.machine().nets().get(0)).bandwidth());
  }

  @Test
  void unseenLinksLeadToASwitch() {
    GpuFacts gpu = gpu("0000:1b:00.0", 0, Map.of(GpuFacts.UNSEEN, 18));
    String text = TopologyXml.write(Detection.of(files, new HostFacts(7, List.of(gpu), List.of())));
    assertTrue(text.contains("tclass=\"0x068000\""), text);
  }

  @Test
  void forbiddenPeersAreOfTheirGpu() {
    Map<String, Integer> links = Map.of();
    GpuFacts first =
        new GpuFacts("0000:1b:00.0", 0, 0, 80, true, links, 0, 0, Set.of("0000:81:00.0"));
    GpuFacts second = gpu("0000:81:00.0", 1, links);
    XmlElement system = Detection.of(files, new HostFacts(7, List.of(first, second), List.of()));
    Machine machine = Cluster.of(system, 1, ClusterOptions.DEFAULT).whole().machine();
    Node one = machine.gpus().get(0);
    Node other = machine.gpus().get(1);
    assertTrue(one.gpu().isForbidden(other));
    assertFalse(other.gpu().isForbidden(one));
  }

  /** A cloud's file: a PCI tree that /sys does not show, without GPUs and with less attributes. */
  @Test
  void aFileWithoutGpusIsTheStart() {
    XmlElement start =
        TopologyXml.parseSystem(
            "cloud.xml",
            "<system version=\"1\"><cpu numaid=\"1\" arch=\"x86_64\" affinity=\"ff\">"
                + "<pci busid=\"ffff:ff:01.0\" class=\"0x060400\" link_speed=\"16 GT/s\""
                + " link_width=\"16\"><pci busid=\"0000:1B:00.0\" link_width=\"4\"/>"
                + "<pci busid=\"0000:18:00.0\"><nic><net name=\"mlx5_0\" speed=\"7\"/>"
                + "<net name=\"absent\"/></nic></pci><pci busid=\"0001:00:00.0\"/></pci></cpu>"
                + "<cpu numaid=\"5\"/></system>");
    assertFalse(new TopologyFile(root, start).isWhole());
    String before = TopologyXml.write(start);
    XmlElement system =
        Detection.of(files, new HostFacts(7, GpuScan.of(files), NetworkScan.of(files)), start);
    assertEquals(before, TopologyXml.write(start), "the start is not changed");
    String text = TopologyXml.write(system);
    assertTrue(new TopologyFile(root, system).isWhole());
    assertEquals(1, system.children().size(), text);
    XmlElement cpu = system.children().get(0);
    assertEquals("ff AuthenticAMD", cpu.require("affinity") + " " + cpu.require("vendor"));
    XmlElement bridge = cpu.children().get(1);
    assertEquals("ffff:ff:01.0", bridge.require("busid"), text);
    assertEquals(2, bridge.children().size(), text);
    XmlElement gpu = bridge.children().get(0);
    assertEquals("0x030200 4", gpu.require("class") + " " + gpu.require("link_width"));
    assertEquals("32.0 GT/s PCIe", gpu.require("link_speed"));
    assertEquals(1, gpu.children().size(), text);
    XmlElement nic = bridge.children().get(1).child("nic").orElseThrow();
    assertEquals(
        List.of("mlx5_0 7 0", "mlx5_1 200000 1"),
        nic.children().stream()
            .map(net -> net.require("name") + " " + net.require("speed") + " " + net.require("dev"))
            .toList());
    assertEquals(2, Cluster.of(system, 1, ClusterOptions.DEFAULT).comm().shape().nRanks());
  }

  @Test
  void theUsersFileComesBeforeTheHypervisors() throws IOException {
    assertEquals(Optional.empty(), TopologyFile.of(Optional.empty(), files));
    write("var/run/nvidia-topologyd/virtualTopology.xml", "<system version=\"1\"/>");
    Path virtual = root.resolve("var/run/nvidia-topologyd/virtualTopology.xml");
    assertEquals(virtual, TopologyFile.of(Optional.empty(), files).orElseThrow().path());
    Path named = Files.writeString(root.resolve("named.xml"), "<system version=\"1\"/>");
    assertEquals(named, TopologyFile.of(Optional.of(named), files).orElseThrow().path());
  }

  @Test
  void devicesThatSysDoesNotShowHangAtAnUnknownCpu() {
    GpuFacts gpu = gpu("00ab:01:00.0", 0, Map.of());
    XmlElement system = Detection.of(files, new HostFacts(7, List.of(gpu), List.of()));
    assertEquals("-1", system.children().get(0).require("numaid"));
    assertEquals(1, Cluster.of(system, 1, ClusterOptions.DEFAULT).comm().shape().nRanks());
  }

  @Test
  void interfacesServeWithoutInfiniband() throws IOException {
    write("sys/class/net/eth0/operstate", "up");
    write("sys/class/net/eth0/speed", "25000");
    write("sys/class/net/lo/operstate", "up");
    write("sys/class/net/eth1/operstate", "down");
    for (String virtual :
        new String[] {
          "docker0",
          "podman0",
          "lxcbr0",
          "lxdbr0",
          "veth12",
          "virbr0",
          "vboxnet0",
          "vmnet8",
          "br-7",
          "cni0",
          "tmfifo_net0"
        }) {
      write("sys/class/net/" + virtual + "/operstate", "up");
    }
    for (int port = 0; port < 2; port++) {
      write("sys/class/infiniband/mlx5_" + port + "/ports/1/state", "1: DOWN");
    }
    List<NetFacts> nets = NetworkScan.of(files);
    assertEquals(1, nets.size());
    assertEquals(25000, nets.get(0).speedMbps());
    XmlElement system = Detection.of(files, new HostFacts(7, GpuScan.of(files), nets));
    assertEquals(2, Cluster.of(system, 1, ClusterOptions.DEFAULT).comm().shape().nRanks());
  }

  @Test
  void virtualInterfacesServeWhereThereAreNoOthers() throws IOException {
    for (int port = 0; port < 2; port++) {
      write("sys/class/infiniband/mlx5_" + port + "/ports/1/state", "1: DOWN");
    }
    write("sys/class/net/lo/operstate", "up");
    write("sys/class/net/veth12/operstate", "up");
    assertEquals("veth12", NetworkScan.of(files).get(0).name());
  }

  /** As a container may hide it from its user. */
  @Test
  void aFolderThatCannotBeReadIsEmpty() throws IOException {
    Path ports = root.resolve("sys/class/infiniband/mlx5_0/ports");
    Set<PosixFilePermission> before = Files.getPosixFilePermissions(ports);
    Files.setPosixFilePermissions(ports, Set.of());
    try {
      assumeFalse(Files.isReadable(ports), "this user may read everything");
      List<NetFacts> nets = NetworkScan.of(files);
      assertEquals(List.of("mlx5_1"), nets.stream().map(NetFacts::name).toList());
    } finally {
      Files.setPosixFilePermissions(ports, before);
    }
  }

  @Test
  void addressesAreChecked() {
    GpuFacts wrong = gpu("../../etc", 0, Map.of());
    assertThrows(
        TopologyException.class,
        () -> Detection.of(files, new HostFacts(7, List.of(wrong), List.of())));
  }

  private static GpuFacts gpu(String busId, int dev, Map<String, Integer> links) {
    return new GpuFacts(busId, dev, dev, 80, true, links, 0, 0);
  }
}
