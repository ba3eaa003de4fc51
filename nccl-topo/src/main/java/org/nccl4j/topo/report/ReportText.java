package org.nccl4j.topo.report;

import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.system.Node;
import org.nccl4j.topo.system.NodeAttributes;

/** Formats the names of devices and figures in reports. */
final class ReportText {
  private ReportText() {}

  /** A device by the name that people know it by. */
  static String name(Node node) {
    return switch (node.type()) {
      case GPU -> "GPU " + node.gpu().rank();
      case NET -> "NET " + node.net().name();
      case CPU -> "NUMA node " + numa(node);
      case NVS -> "NVSwitch";
      case PCI -> "PCIe switch " + bus(node);
      case NIC -> "network card " + bus(node);
      case DEV -> "device " + bus(node);
      case CXB -> "C2C bridge " + bus(node);
    };
  }

  private static String numa(Node cpu) {
    // NUMA node -1, in virtual machines, has all bits of the number set.
    String id = cpu.id() == 0x00ff_ffff_ffff_ffffL ? "?" : String.valueOf(cpu.id());
    return cpu.host() == 0 ? id : id + " of host " + cpu.host();
  }

  /** A bus address in its usual form. */
  static String bus(Node node) {
    long id = node.id();
    return String.format(
        Locale.ROOT,
        "%04x:%02x:%02x.%x",
        id >>> 20,
        (id >>> 12) & 0xff,
        (id >>> 4) & 0xff,
        id & 0xf);
  }

  static String cpu(NodeAttributes.Cpu cpu) {
    String model = cpu.model() == NodeAttributes.Model.OTHER ? "" : " " + lower(cpu.model().name());
    return switch (cpu.arch()) {
      case X86 ->
          capital(cpu.vendor() == NodeAttributes.Vendor.AMD ? "AMD" : cpu.vendor().name()) + model;
      case ARM -> "Arm";
      case POWER -> "POWER";
      default -> "CPU";
    };
  }

  private static String capital(String name) {
    return name.equals("AMD") ? name : name.charAt(0) + lower(name.substring(1));
  }

  static String lower(String name) {
    return name.toLowerCase(Locale.ROOT).replace('_', ' ');
  }

  /** GB/s without needless digits. */
  static String gb(float bandwidth) {
    String text = String.format(Locale.ROOT, "%.2f", bandwidth);
    return text.replaceFirst("\\.?0+$", "") + " GB/s";
  }

  /** Names as a list to read: GPUs with ranks in a row are written as a range. */
  static String list(List<Node> nodes) {
    boolean gpus = nodes.size() > 2 && nodes.stream().allMatch(n -> n.type() == NodeType.GPU);
    if (gpus) {
      int first = nodes.get(0).gpu().rank();
      int last = nodes.get(nodes.size() - 1).gpu().rank();
      if (last - first == nodes.size() - 1) {
        return "GPUs " + first + " to " + last;
      }
    }
    return nodes.stream().map(ReportText::name).collect(Collectors.joining(", "));
  }
}
