package org.nccl4j.topo.system;

import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.xml.XmlElement;

/** GPUs: the device on the bus, its partitions, and the ranks that use it. */
final class DeviceNodes {
  private static final int MAX_PARTITIONS = 2;
  private static final int RANK_SHIFT = 40;

  private final MachineNodes machine;

  DeviceNodes(MachineNodes machine) {
    this.machine = machine;
  }

  /**
   * Adds the GPUs of a PCI element. False if one has no rank: then no rank uses what is at that
   * address, and the element is left.
   */
  boolean add(XmlElement pci, Node parent, long bus, float bandwidth) {
    boolean first = true;
    for (XmlElement gpu : pci.children()) {
      if (!gpu.is("gpu")) {
        continue;
      }
      if (gpu.text("rank").isEmpty()) {
        return false;
      }
      if (first && !at(machine, parent.host(), bus).isEmpty()) {
        throw pci.error(
            "repeats busid " + pci.require("busid"), "give every GPU its own bus address");
      }
      first = false;
      addRank(pci, gpu, parent, bus, bandwidth);
    }
    return true;
  }

  private void addRank(XmlElement pci, XmlElement gpu, Node parent, long bus, float bandwidth) {
    if (PciIds.hasPartitionBits(bus)) {
      throw pci.error("has a GPU at function " + (bus & 3), "end its busid in .0 or .4");
    }
    int partition = partition(gpu);
    if (partition >= MAX_PARTITIONS) {
      throw gpu.error("mlopart " + partition + " is out of range", "use 0 or 1");
    }
    long deviceBus = machine.splitsPartitions() ? PciIds.partition(bus, partition) : bus;
    Node device = machine.find(NodeType.DEV, parent.host(), deviceBus);
    if (device == null) {
      device = addDevice(pci, gpu, parent, deviceBus, bandwidth);
    }
    long ranksBefore =
        device.links().stream().filter(link -> link.to().type() == NodeType.GPU).count();
    long id = ranksBefore << RANK_SHIFT | deviceBus;
    Node node = machine.create(gpu, NodeType.GPU, parent.host(), id, attributes(gpu, partition));
    MachineNodes.connect(device, node, LinkType.LOC, Bandwidths.LOCAL);
  }

  private Node addDevice(
      XmlElement pci, XmlElement gpu, Node parent, long deviceBus, float bandwidth) {
    NodeAttributes attributes =
        new NodeAttributes.Device(
            gpu.requireInt("dev"), gpu.requireInt("sm"), PciIds.identity(pci));
    Node device = machine.create(pci, NodeType.DEV, parent.host(), deviceBus, attributes);
    MachineNodes.connect(device, parent, LinkType.PCI, bandwidth);
    for (Node other : siblings(machine, device)) {
      if (other != device) {
        MachineNodes.connect(device, other, LinkType.LOC, Bandwidths.PARTITIONS);
      }
    }
    return device;
  }

  private NodeAttributes.Gpu attributes(XmlElement gpu, int partition) {
    int rank = gpu.requireInt("rank");
    for (Node other : machine.list(NodeType.GPU)) {
      if (other.gpu().rank() == rank) {
        throw gpu.error("repeats rank " + rank, "give every GPU its own rank");
      }
    }
    int gdr = gpu.intOr("gdr", machine.assumptions().gdr() ? 1 : 0);
    return new NodeAttributes.Gpu(
        rank, gpu.requireInt("dev"), gpu.requireInt("sm"), gdr != 0, partition, forbidden(gpu));
  }

  private static Set<Long> forbidden(XmlElement gpu) {
    return Stream.of(gpu.text("nopeers").orElse("").split(","))
        .filter(busId -> !busId.isEmpty())
        .map(busId -> PciIds.withoutPartition(PciIds.bus(busId)))
        .collect(Collectors.toSet());
  }

  static int partition(XmlElement gpu) {
    return Math.max(-1, gpu.intOr("mlopart", -1));
  }

  /** The devices that are partitions of one GPU, itself included. */
  static List<Node> siblings(MachineNodes machine, Node device) {
    return at(machine, device.host(), device.id());
  }

  /** The devices at a bus address, whatever their partition. */
  static List<Node> at(MachineNodes machine, int host, long bus) {
    return machine.list(NodeType.DEV).stream()
        .filter(
            node ->
                node.host() == host
                    && PciIds.withoutPartition(node.id()) == PciIds.withoutPartition(bus))
        .toList();
  }
}
