package org.nccl4j.topo.detect;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.nccl4j.topo.PciPath;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.xml.XmlElement;
import org.nccl4j.topo.xml.XmlPruning;

/** Detects the topology of a host. */
public final class Detection {
  private static final String NVSWITCH_CLASS = "0x068000";

  private final SysFiles files;
  private final XmlElement system;
  private final CpuElements cpus;
  private final PciTree tree;

  /** Networks of the start that are not found so far. */
  private final List<XmlElement> givenNets = new ArrayList<>();

  private Detection(SysFiles files, HostFacts facts, XmlElement system) {
    this.files = files;
    this.system = system;
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
    return of(files, facts, XmlElement.of("system").set("version", 1));
  }

  /**
   * The topology of a host of which some is given. Given elements keep their places and attributes,
   * and get the attributes that they lack; what leads to no GPU or network is left out.
   *
   * @param start a topology, without the GPUs that the facts have; not changed
   */
  public static XmlElement of(SysFiles files, HostFacts facts, XmlElement start) {
    Detection detection = new Detection(files, facts, start.copy());
    detection.give(detection.system);
    facts.gpus().forEach(detection::addGpu);
    for (int dev = 0; dev < facts.nets().size(); dev++) {
      detection.addNet(facts.nets().get(dev), dev);
    }
    detection.givenNets.forEach(net -> net.parent().remove(net));
    XmlPruning.prune(detection.system);
    return detection.system;
  }

  private void give(XmlElement element) {
    if (element.is("net")) {
      givenNets.add(element);
    }
    element.children().forEach(this::give);
  }

  private void addGpu(GpuFacts gpu) {
    if (!PciPath.isAddress(gpu.busId())) {
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
    given(net)
        .orElseGet(() -> made(net))
        .set("dev", dev)
        .setIfAbsent("latency", net.latency())
        .setIfAbsent("speed", net.speedMbps())
        .setIfAbsent("port", net.port())
        .setIfAbsent("guid", "0x" + Long.toHexString(net.guid()))
        .setIfAbsent("maxconn", net.maxConnections())
        .setIfAbsent("gdr", net.gdr() ? 1 : 0);
  }

  private Optional<XmlElement> given(NetFacts net) {
    Optional<XmlElement> given =
        givenNets.stream()
            .filter(each -> each.text("name").filter(net.name()::equals).isPresent())
            .filter(each -> each.intOr("port", net.port()) == net.port())
            .findFirst();
    given.ifPresent(
        element -> {
          givenNets.remove(element);
          tree.complete(element.parent().parent());
        });
    return given;
  }

  private XmlElement made(NetFacts net) {
    XmlElement parent = net.busId().isEmpty() ? firstCpu() : tree.element(net.busId(), "0x020000");
    XmlElement nic = parent.child("nic").orElseGet(() -> parent.add(XmlElement.of("nic")));
    return nic.add(XmlElement.of("net").set("name", net.name()));
  }

  private XmlElement firstCpu() {
    return system.child("cpu").map(cpus::complete).orElseGet(() -> cpus.element(system, "0"));
  }
}
