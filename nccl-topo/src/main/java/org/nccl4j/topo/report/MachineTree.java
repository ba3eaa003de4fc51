package org.nccl4j.topo.report;

import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.system.Link;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;
import org.nccl4j.topo.system.NodeAttributes;

/** A machine as an indented tree: NUMA nodes, what is below them, and the links across. */
public final class MachineTree {
  private static final Set<NodeType> BELOW =
      Set.of(NodeType.PCI, NodeType.DEV, NodeType.NIC, NodeType.NET);

  private final StringBuilder out = new StringBuilder();

  private MachineTree() {}

  /** The tree as lines. */
  public static String of(Machine machine) {
    MachineTree tree = new MachineTree();
    for (Node cpu : machine.cpus()) {
      tree.cpu(cpu);
    }
    for (Node nvSwitch : machine.nvSwitches()) {
      tree.line(0, ReportText.name(nvSwitch) + across(nvSwitch));
    }
    return tree.out.toString();
  }

  private void cpu(Node cpu) {
    NodeAttributes.Cpu attributes = cpu.cpu();
    String cpus = attributes.affinity().isEmpty() ? "" : ", CPU mask " + attributes.affinity();
    line(0, ReportText.name(cpu) + ": " + ReportText.cpu(attributes) + cpus + across(cpu));
    below(1, cpu, null);
  }

  private void below(int depth, Node node, Node from) {
    for (Link link : node.links()) {
      Node to = link.to();
      boolean down = link.type() == LinkType.PCI || link.type() == LinkType.NET;
      if (!down || to == from || !BELOW.contains(to.type())) {
        continue;
      }
      line(depth, "+- " + describe(to) + " [" + ReportText.gb(link.bandwidth()) + "]" + across(to));
      below(depth + 1, to, node);
    }
  }

  private static String describe(Node node) {
    return switch (node.type()) {
      case DEV -> device(node);
      case NET -> net(node.net());
      default -> ReportText.name(node);
    };
  }

  private static String device(Node device) {
    List<Node> ranks =
        device.links().stream().map(Link::to).filter(node -> node.type() == NodeType.GPU).toList();
    String names = ranks.isEmpty() ? "GPU of another domain" : ReportText.list(ranks);
    NodeAttributes.Device attributes = device.device();
    return String.format(
        Locale.ROOT,
        "%s: device %d, sm %d, %s",
        names,
        attributes.dev(),
        attributes.sm(),
        ReportText.bus(device));
  }

  private static String net(NodeAttributes.Net net) {
    String rail = net.rail() >= 0 ? ", rail " + net.rail() : "";
    String plane = net.plane() >= 0 ? ", plane " + net.plane() : "";
    return String.format(
        Locale.ROOT,
        "NET %s: dev %d, port %d%s%s%s",
        net.name(),
        net.dev(),
        net.port(),
        rail,
        plane,
        net.gdr() ? ", GPUDirect" : "");
  }

  /** Links that are not part of the tree. */
  private static String across(Node node) {
    StringBuilder text = new StringBuilder();
    for (Link link : node.links()) {
      boolean across =
          link.type() == LinkType.NVL || link.type() == LinkType.C2C || link.type() == LinkType.SYS;
      if (across) {
        text.append(text.isEmpty() ? " | " : ", ")
            .append(link.type())
            .append(' ')
            .append(ReportText.gb(link.bandwidth()))
            .append(" to ")
            .append(target(link.to()));
      }
    }
    return text.toString();
  }

  private static String target(Node node) {
    if (node.type() != NodeType.DEV) {
      return ReportText.name(node);
    }
    return node.links().stream()
        .map(Link::to)
        .filter(to -> to.type() == NodeType.GPU)
        .map(ReportText::name)
        .findFirst()
        .orElse(ReportText.name(node));
  }

  private void line(int depth, String text) {
    out.append("  ".repeat(depth)).append(text).append('\n');
  }
}
