package org.nccl4j.topo.detect;

import java.util.Map;
import java.util.TreeMap;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.xml.XmlElement;

/** Detects the topology of a host. */
public final class Detection {
  private static final String NVSWITCH_CLASS = "0x068000";

  private final SysFiles files;
  private final XmlElement system = XmlElement.of("system").set("version", 1);
  private final CpuElements cpus;
  private final PciTree tree;

  private Detection(SysFiles files, HostFacts facts) {
    this.files = files;
    this.cpus = new CpuElements(files, facts.hash());
    this.tree = new PciTree(files, system, cpus);
  }

  /**
   * The topology of a host, as a file would give it.
   *
   * @param files the kernel's files
   * @param facts what the driver and the network know
   */
  public static XmlElement of(SysFiles files, HostFacts facts) {
    Detection detection = new Detection(files, facts);
    facts.gpus().forEach(detection::addGpu);
    for (int dev = 0; dev < facts.nets().size(); dev++) {
      detection.addNet(facts.nets().get(dev), dev);
    }
    return detection.system;
  }

  private void addGpu(GpuFacts gpu) {
    if (!PciTree.isAddress(gpu.busId())) {
      throw new TopologyException(
          "a GPU cannot be placed",
          "device " + gpu.dev(),
          "'" + gpu.busId() + "' is not a PCI address",
          "pass it as 0000:1b:00.0, in lower case");
    }
    XmlElement element =
        XmlElement.of("gpu")
            .set("dev", gpu.dev())
            .set("sm", gpu.sm())
            .set("rank", gpu.rank() < 0 ? gpu.dev() : gpu.rank())
            .set("gdr", gpu.gdr() ? 1 : 0);
    gpu.writePeers(element);
    for (Map.Entry<String, Integer> link : new TreeMap<>(gpu.nvLinks()).entrySet()) {
      element.add(
          XmlElement.of("nvlink")
              .set("target", link.getKey())
              .set("count", link.getValue())
              .set("tclass", classOf(link.getKey())));
    }
    if (gpu.c2cLinks() > 0) {
      element.add(XmlElement.of("c2c").set("bw", gpu.c2cMbps()).set("count", gpu.c2cLinks()));
    }
    tree.element(gpu.busId(), "0x030000").add(element);
  }

  /** Returns the PCI class of an NVLink's other end. An unseen device counts as a switch. */
  private String classOf(String target) {
    String found = files.pci(target).map(path -> SysFiles.read(path, "class")).orElse("");
    return found.isEmpty() ? NVSWITCH_CLASS : found;
  }

  private void addNet(NetFacts net, int dev) {
    XmlElement parent = net.busId().isEmpty() ? firstCpu() : tree.element(net.busId(), "0x020000");
    XmlElement nic = parent.child("nic").orElseGet(() -> parent.add(XmlElement.of("nic")));
    nic.add(
        XmlElement.of("net")
            .set("name", net.name())
            .set("dev", dev)
            .set("latency", net.latency())
            .set("speed", net.speedMbps())
            .set("port", net.port())
            .set("guid", "0x" + Long.toHexString(net.guid()))
            .set("maxconn", net.maxConnections())
            .set("gdr", net.gdr() ? 1 : 0));
  }

  private XmlElement firstCpu() {
    return system.child("cpu").orElseGet(() -> cpus.element(system, "0"));
  }
}
