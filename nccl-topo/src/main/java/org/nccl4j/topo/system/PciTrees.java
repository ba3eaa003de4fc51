package org.nccl4j.topo.system;

import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.xml.XmlElement;

/** First pass: CPUs, and below them switches, devices and network cards. */
final class PciTrees {
  private static final int MAX_WIDTH = 1024;

  private final MachineNodes machine;
  private final DeviceNodes devices;
  private final NetNodes nets;

  PciTrees(MachineNodes machine) {
    this.machine = machine;
    this.devices = new DeviceNodes(machine);
    this.nets = new NetNodes(machine);
  }

  void addCpu(XmlElement element) {
    int numa = element.requireInt("numaid");
    int host = machine.host(element);
    if (machine.find(NodeType.CPU, host, numa) != null) {
      throw element.error("repeats NUMA node " + numa, "merge the two <cpu> elements");
    }
    Node cpu = machine.create(element, NodeType.CPU, host, numa, CpuReader.read(element));
    for (XmlElement child : element.children()) {
      if (child.is("pci")) {
        addPci(child, cpu);
      } else {
        addNicOfCpu(child, cpu);
      }
    }
  }

  /** Virtual cards have no bus address; one card stands for all of a CPU's. */
  private void addNicOfCpu(XmlElement element, Node cpu) {
    Node nic = machine.find(NodeType.NIC, cpu.host(), 0);
    if (nic == null) {
      nic = machine.create(element, NodeType.NIC, cpu.host(), 0, new NodeAttributes.None());
      MachineNodes.connect(cpu, nic, LinkType.PCI, Bandwidths.LOCAL);
    }
    nets.add(element, nic);
  }

  private void addPci(XmlElement pci, Node parent) {
    NodeType kind = PciIds.kind(pci.require("class"));
    long bus = PciIds.bus(pci.require("busid"));
    float bandwidth = Bandwidths.pci(pci.require("link_speed"), width(pci));
    if (!devices.add(pci, parent, bus, bandwidth)) {
      return;
    }
    if (pci.child("nic").isPresent()) {
      addNic(pci, parent, bus, bandwidth);
    } else if (kind == NodeType.PCI) {
      addSwitch(pci, parent, bus, bandwidth);
    }
  }

  private static int width(XmlElement pci) {
    String text = pci.require("link_width");
    // /sys may have words here, such as "Unknown"; they count as no width.
    int width =
        text.isBlank() || !text.strip().matches("[-+]?[0-9].*") ? 0 : pci.requireInt("link_width");
    if (width < 0 || width > MAX_WIDTH) {
      throw pci.error(
          "link_width=\"" + text + "\" is not a width", "write the number of lanes, or 0");
    }
    return width;
  }

  private void addNic(XmlElement pci, Node parent, long bus, float bandwidth) {
    Node nic = machine.find(NodeType.NIC, parent.host(), bus);
    if (nic == null) {
      nic = machine.create(pci, NodeType.NIC, parent.host(), bus, new NodeAttributes.None());
      nets.add(pci.child("nic").orElseThrow(), nic);
      MachineNodes.connect(nic, parent, LinkType.PCI, bandwidth);
    } else {
      nets.add(pci.child("nic").orElseThrow(), nic);
    }
  }

  private void addSwitch(XmlElement pci, Node parent, long bus, float bandwidth) {
    if (machine.find(NodeType.PCI, parent.host(), bus) != null) {
      throw pci.error(
          "repeats busid " + pci.require("busid"), "give every switch its own bus address");
    }
    NodeAttributes attributes = new NodeAttributes.Pci(PciIds.identity(pci));
    Node node = machine.create(pci, NodeType.PCI, parent.host(), bus, attributes);
    for (XmlElement child : pci.children()) {
      if (child.is("pci")) {
        addPci(child, node);
      }
    }
    MachineNodes.connect(node, parent, LinkType.PCI, bandwidth);
  }
}
