package org.nccl4j.topo.system;

import java.util.List;
import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.xml.XmlElement;

/** Second pass: links outside the PCI tree, namely NVLink, C2C, and links between switches. */
final class CrossLinks {
  private final MachineNodes machine;
  private boolean warned;

  CrossLinks(MachineNodes machine) {
    this.machine = machine;
  }

  void add(XmlElement system) {
    // NVLinks of the whole machine come before its C2C links, and those before switch links:
    // links of equal bandwidth stay in that order.
    for (String tag : List.of("nvlink", "c2c", "pcilink")) {
      for (XmlElement cpu : system.children()) {
        int host = machine.host(cpu);
        cpu.children().forEach(child -> add(tag, child, host));
      }
    }
  }

  private void add(String tag, XmlElement element, int host) {
    if (element.is(tag)) {
      switch (tag) {
        case "nvlink" -> addNvLink(element, host);
        case "c2c" -> addC2c(element, host);
        default -> addSwitchLink(element, host);
      }
      return;
    }
    element.children().forEach(child -> add(tag, child, host));
  }

  private void addNvLink(XmlElement element, int host) {
    XmlElement gpu = element.parent();
    if (!speaksForDevice(gpu)) {
      return;
    }
    Node device = device(gpu, host);
    int partitions = DeviceNodes.siblings(machine, device).size();
    int count = count(element);
    float each = count * Bandwidths.nvLink(device.device().sm());
    switch (PciIds.kind(element.require("tclass"))) {
      case GPU -> {
        long target = PciIds.bus(element.require("target"));
        List<Node> remotes = DeviceNodes.at(machine, host, target);
        for (Node remote : remotes) {
          if (remote == device && !warned) {
            warned = true;
            // Files of cloud providers have such links, and NCCL counts them.
            TopologyLog.warn(
                "{0}: an <nvlink> of {1} leads to itself; NCCL counts it, and so does nccl4j",
                element.where(), device);
          }
          device.connect(remote, LinkType.NVL, each / remotes.size() / partitions);
        }
      }
      case CPU -> {
        Node cpu = localCpu(device, null);
        if (cpu != null) {
          MachineNodes.connect(device, cpu, LinkType.NVL, each / partitions);
        }
      }
      default -> MachineNodes.connect(device, nvSwitch(element), LinkType.NVL, each / partitions);
    }
  }

  private Node nvSwitch(XmlElement element) {
    // All switches act as one: every GPU has links to each of them.
    List<Node> switches = machine.list(NodeType.NVS);
    return switches.isEmpty()
        ? machine.create(element, NodeType.NVS, 0, 0, new NodeAttributes.None())
        : switches.get(0);
  }

  private void addC2c(XmlElement element, int host) {
    XmlElement gpu = element.parent();
    if (!speaksForDevice(gpu)) {
      return;
    }
    Node device = device(gpu, host);
    int mbps = element.requireInt("bw");
    if (mbps < 0) {
      throw element.error("bw=\"" + mbps + "\" is negative", "write MB/s of one link");
    }
    float bandwidth = Bandwidths.c2c(mbps, count(element));
    Node cpu = localCpu(device, null);
    if (cpu == null) {
      return;
    }
    if (DeviceNodes.siblings(machine, device).size() > 1) {
      Node bridge = bridge(element, device, cpu, bandwidth);
      MachineNodes.connect(device, bridge, LinkType.C2C, bandwidth);
    } else {
      MachineNodes.connect(device, cpu, LinkType.C2C, bandwidth);
    }
  }

  /** Partitions of a GPU share its C2C link; a node of its own makes sure they do not add up. */
  private Node bridge(XmlElement element, Node device, Node cpu, float bandwidth) {
    long id = PciIds.withoutPartition(device.id());
    Node bridge = machine.find(NodeType.CXB, device.host(), id);
    if (bridge == null) {
      bridge = machine.create(element, NodeType.CXB, device.host(), id, new NodeAttributes.None());
      MachineNodes.connect(bridge, cpu, LinkType.C2C, bandwidth);
    }
    return bridge;
  }

  private void addSwitchLink(XmlElement element, int host) {
    long bus = PciIds.bus(element.parent().require("busid"));
    Node from = machine.find(NodeType.PCI, host, bus);
    if (from == null) {
      throw element.error("is not in a switch", "put <pcilink> into the <pci> of a switch");
    }
    Node to = machine.find(NodeType.PCI, host, PciIds.bus(element.require("target")));
    if (to != null) {
      from.connect(to, LinkType.LOC, Bandwidths.LOCAL);
    }
  }

  private static int count(XmlElement element) {
    int count = element.requireInt("count");
    if (count < 0) {
      throw element.error("count=\"" + count + "\" is negative", "write the number of links");
    }
    return count;
  }

  private Node device(XmlElement gpu, int host) {
    XmlElement pci = gpu.parent();
    long bus = PciIds.bus(pci.require("busid"));
    int partition = DeviceNodes.partition(gpu);
    long id = machine.splitsPartitions() ? PciIds.partition(bus, partition) : bus;
    Node device = machine.find(NodeType.DEV, host, id);
    if (device == null) {
      throw gpu.error("has links but no rank", "give it a rank, or remove its links");
    }
    return device;
  }

  /** Ranks that share a device repeat its links; the first of them counts. */
  private boolean speaksForDevice(XmlElement gpu) {
    for (XmlElement other : gpu.parent().children()) {
      if (other == gpu) {
        return true;
      }
      boolean sameDevice =
          !machine.splitsPartitions() || DeviceNodes.partition(other) == DeviceNodes.partition(gpu);
      if (other.is("gpu") && sameDevice) {
        return false;
      }
    }
    return true;
  }

  /** The CPU at the top of a node's PCI tree. */
  private static Node localCpu(Node node, Node from) {
    if (node.type() == NodeType.CPU) {
      return node;
    }
    for (Link link : node.links()) {
      NodeType type = link.to().type();
      boolean up = type == NodeType.PCI || type == NodeType.CPU;
      if (link.type() == LinkType.PCI && up && link.to() != from) {
        Node cpu = localCpu(link.to(), node);
        if (cpu != null) {
          return cpu;
        }
      }
    }
    return null;
  }
}
