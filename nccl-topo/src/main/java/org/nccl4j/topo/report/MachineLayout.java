package org.nccl4j.topo.report;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.system.Link;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;

/**
 * The places of a machine's nodes in a picture: a box per NUMA node with the devices below it, PCIe
 * on top, GPUs and network cards in a row, the NVSwitch below them.
 */
final class MachineLayout {
  static final int COLUMN = 150;
  static final int BOX_WIDTH = 130;
  static final int BOX_HEIGHT = 44;
  static final int MARGIN = 30;
  static final int GAP = 26;
  private static final int ROW_CPU = 70;
  private static final int ROW_SWITCH = 175;
  private static final int ROW_DEVICE = 320;
  private static final int ROW_NVSWITCH = 520;

  private final Machine machine;
  private final SvgCanvas canvas;
  private final int down;
  private final Map<Node, Integer> centre = new HashMap<>();
  private final Map<Node, Integer> top = new HashMap<>();

  /**
   * Nothing is placed yet.
   *
   * @param down distance by which all is further down
   */
  MachineLayout(Machine machine, SvgCanvas canvas, int down) {
    this.machine = machine;
    this.canvas = canvas;
    this.down = down;
  }

  /**
   * Places all nodes.
   *
   * @param least width of the picture
   * @return width of the picture
   */
  int place(int least) {
    int x = MARGIN;
    for (Node cpu : machine.cpus()) {
      x = numaNode(cpu, x) + GAP;
    }
    int width = Math.max(x, least);
    for (Node nvSwitch : machine.nvSwitches()) {
      centre.put(nvSwitch, width / 2);
      top.put(nvSwitch, down + ROW_NVSWITCH);
    }
    return width;
  }

  boolean has(Node node) {
    return centre.containsKey(node);
  }

  /** Horizontal centre of a node's box. */
  int x(Node node) {
    return centre.get(node);
  }

  /** Upper edge of a node's box. */
  int y(Node node) {
    return top.get(node);
  }

  /** Lower edge of the row of GPUs and network cards. */
  int devicesBottom() {
    return down + ROW_DEVICE + BOX_HEIGHT;
  }

  /** Upper edge of the NVSwitch. */
  int nvSwitchTop() {
    return down + ROW_NVSWITCH;
  }

  /** Lower edge of the lowest box. */
  int bottom() {
    return machine.nvSwitches().isEmpty() ? devicesBottom() : nvSwitchTop() + BOX_HEIGHT;
  }

  /** The box of a network, if it is in the picture. */
  Optional<Node> card(Node net) {
    return centre.keySet().stream()
        .filter(node -> node.links().stream().anyMatch(link -> link.to() == net))
        .findFirst();
  }

  /** Places a NUMA node's devices from left to right; returns the right edge. */
  private int numaNode(Node cpu, int left) {
    int right = Math.max(children(cpu, left, ROW_SWITCH), left + COLUMN);
    centre.put(cpu, (left + right) / 2);
    top.put(cpu, down + ROW_CPU);
    canvas.area(left - 8, down + ROW_CPU - 34, right - left + 6, ROW_DEVICE - ROW_CPU + 110);
    canvas.label(
        left, down + ROW_CPU - 18, ReportText.name(cpu) + ": " + ReportText.cpu(cpu.cpu()));
    return right;
  }

  private int children(Node node, int left, int row) {
    int x = left;
    for (Link link : node.links()) {
      Node child = link.to();
      boolean below = link.type() == LinkType.PCI && !centre.containsKey(child);
      if (!below || child.type() == NodeType.CPU) {
        continue;
      }
      if (child.type() == NodeType.PCI) {
        centre.put(child, x);
        int right = Math.max(children(child, x, row + 60), x + COLUMN);
        centre.put(child, (x + right) / 2);
        top.put(child, down + Math.min(row, ROW_DEVICE - 75));
        x = right;
      } else {
        centre.put(child, x + COLUMN / 2);
        top.put(child, down + ROW_DEVICE);
        x += COLUMN;
      }
    }
    return x;
  }

  /** Draws the links between boxes, each once. */
  List<Picture.Edge> links() {
    List<Picture.Edge> edges = new ArrayList<>();
    for (Node node : machine.nodes()) {
      for (Link link : node.links()) {
        Node to = link.to();
        boolean once = node.ordinal() < to.ordinal();
        if (once && centre.containsKey(node) && centre.containsKey(to)) {
          edges.add(link(node, to, link));
        }
      }
    }
    return edges;
  }

  private Picture.Edge link(Node from, Node to, Link link) {
    int x1 = centre.get(from);
    int x2 = centre.get(to);
    int y1 = top.get(from) + BOX_HEIGHT / 2;
    int y2 = top.get(to) + BOX_HEIGHT / 2;
    String text = link.type() + " " + ReportText.gb(link.bandwidth()).replace(" GB/s", "");
    Picture.Edge edge =
        new Picture.Edge(
            Picture.id(from.toString(), to.toString(), link.type()),
            "%s between %s and %s".formatted(kind(link), named(from), named(to)),
            link.bandwidth());
    canvas.begin("link", edge.id(), edge.name());
    if (y1 == y2 && link.type() == LinkType.NVL) {
      canvas.arc(x1, y1 + BOX_HEIGHT / 2, x2, "#76b900", 1.5, 0, text);
    } else {
      String colour = link.type() == LinkType.NVL ? "#76b900" : "#888888";
      double width = Math.min(8, 1 + link.bandwidth() / 60);
      // From the lower edge of one box to the upper edge of the other, not behind a third.
      int edgeToEdge = Integer.signum(y2 - y1) * BOX_HEIGHT / 2;
      canvas.line(x1, y1 + edgeToEdge, x2, y2 - edgeToEdge, colour, width, text);
    }
    canvas.end();
    return edge;
  }

  private static String kind(Link link) {
    return switch (link.type()) {
      case NVL -> "NVLink";
      case C2C -> "C2C";
      case PCI -> "PCIe";
      case SYS -> "link of CPUs";
      default -> "link";
    };
  }

  /** A device by its ranks or networks, anything else by its name. */
  private static String named(Node node) {
    return switch (node.type()) {
      case DEV, NIC -> lines(node).get(0);
      default -> ReportText.name(node);
    };
  }

  /** Draws the boxes, over the links. */
  void boxes(Function<Node, List<String>> text) {
    centre.forEach(
        (node, x) -> {
          List<String> lines = text.apply(node);
          canvas.begin("node " + ReportText.lower(node.type().name()), node.toString(), "");
          canvas.box(x - BOX_WIDTH / 2, top.get(node), BOX_WIDTH, BOX_HEIGHT, fill(node), lines);
          canvas.end();
        });
  }

  private static String fill(Node node) {
    return switch (node.type()) {
      case DEV -> "#dff0c0";
      case NIC -> "#cfe2ff";
      case NVS -> "#b6e37a";
      case CPU -> "#fde9c9";
      default -> "#eeeeee";
    };
  }

  /** A node's name and facts, in the lines of its box. */
  static List<String> lines(Node node) {
    List<String> lines = new ArrayList<>();
    switch (node.type()) {
      case DEV -> {
        List<Node> ranks =
            node.links().stream().map(Link::to).filter(gpu -> gpu.type() == NodeType.GPU).toList();
        lines.add(ranks.isEmpty() ? "GPU elsewhere" : ReportText.list(ranks));
        lines.add("sm " + node.device().sm() + "  " + ReportText.bus(node));
      }
      case NIC -> {
        List<Node> nets =
            node.links().stream().map(Link::to).filter(net -> net.type() == NodeType.NET).toList();
        lines.add(nets.isEmpty() ? "network card" : nets.get(0).net().name());
        lines.add(
            nets.isEmpty()
                ? ""
                : (nets.size() > 1 ? nets.size() + " x " : "")
                    + ReportText.gb(nets.get(0).net().bandwidth()));
      }
      case CPU -> lines.add(ReportText.name(node));
      case NVS -> lines.add("NVSwitch");
      default -> {
        lines.add(ReportText.lower(node.type().name()).equals("pci") ? "PCIe switch" : "bridge");
        lines.add(ReportText.bus(node));
      }
    }
    return lines;
  }
}
