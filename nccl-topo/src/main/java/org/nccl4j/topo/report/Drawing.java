package org.nccl4j.topo.report;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.search.Channel;
import org.nccl4j.topo.search.ChannelGraph;
import org.nccl4j.topo.search.GraphKind;
import org.nccl4j.topo.search.MachineGraphs;
import org.nccl4j.topo.system.Link;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;

/**
 * A machine as an SVG picture: a box per NUMA node with the devices below it, PCIe on top, GPUs in
 * a row, NVLinks below them, and the rings in colour.
 */
public final class Drawing {
  private static final int COLUMN = 150;
  private static final int BOX_WIDTH = 130;
  private static final int BOX_HEIGHT = 44;
  private static final int MARGIN = 30;
  private static final int GAP = 26;
  private static final int ROW_CPU = 70;
  private static final int ROW_SWITCH = 175;
  private static final int ROW_DEVICE = 320;
  private static final int ROW_NVSWITCH = 520;
  private static final int HEIGHT = 700;
  private static final String[] COLOURS = {
    "#d62728", "#1f77b4", "#2ca02c", "#ff7f0e", "#9467bd", "#17becf", "#8c564b", "#e377c2"
  };

  private final MachineGraphs graphs;
  private final Machine machine;
  private final SvgCanvas canvas = new SvgCanvas();
  private final Map<Node, Integer> centre = new HashMap<>();
  private final Map<Node, Integer> top = new HashMap<>();

  private Drawing(MachineGraphs graphs) {
    this.graphs = graphs;
    this.machine = graphs.routes().machine();
  }

  /** The picture as an SVG document. */
  public static String of(MachineGraphs graphs, String title) {
    return new Drawing(graphs).draw(title);
  }

  private String draw(String title) {
    int x = MARGIN;
    for (Node cpu : machine.cpus()) {
      x = numaNode(cpu, x) + GAP;
    }
    int width = Math.max(x, 640);
    nvSwitch(width);
    links();
    rings();
    boxes();
    legend(width);
    return canvas.document(width, HEIGHT, title);
  }

  /** Places a NUMA node's devices from left to right; returns the right edge. */
  private int numaNode(Node cpu, int left) {
    int right = Math.max(children(cpu, left, ROW_SWITCH), left + COLUMN);
    centre.put(cpu, (left + right) / 2);
    top.put(cpu, ROW_CPU);
    canvas.area(left - 8, ROW_CPU - 34, right - left + 6, ROW_DEVICE - ROW_CPU + 110);
    canvas.label(left, ROW_CPU - 18, ReportText.name(cpu) + ": " + ReportText.cpu(cpu.cpu()));
    return right;
  }

  private int children(Node node, int left, int row) {
    int x = left;
    for (Link link : node.links()) {
      Node child = link.to();
      boolean down = link.type() == LinkType.PCI && !centre.containsKey(child);
      if (!down || child.type() == NodeType.CPU) {
        continue;
      }
      if (child.type() == NodeType.PCI) {
        centre.put(child, x);
        int right = Math.max(children(child, x, row + 60), x + COLUMN);
        centre.put(child, (x + right) / 2);
        top.put(child, Math.min(row, ROW_DEVICE - 75));
        x = right;
      } else {
        centre.put(child, x + COLUMN / 2);
        top.put(child, ROW_DEVICE);
        x += COLUMN;
      }
    }
    return x;
  }

  private void nvSwitch(int width) {
    for (Node nvSwitch : machine.nvSwitches()) {
      centre.put(nvSwitch, width / 2);
      top.put(nvSwitch, ROW_NVSWITCH);
    }
  }

  private void links() {
    for (Node node : machine.nodes()) {
      for (Link link : node.links()) {
        Node to = link.to();
        boolean once = node.ordinal() < to.ordinal();
        if (once && centre.containsKey(node) && centre.containsKey(to)) {
          link(node, to, link);
        }
      }
    }
  }

  private void link(Node from, Node to, Link link) {
    int x1 = centre.get(from);
    int x2 = centre.get(to);
    int y1 = top.get(from) + BOX_HEIGHT / 2;
    int y2 = top.get(to) + BOX_HEIGHT / 2;
    String text = link.type() + " " + ReportText.gb(link.bandwidth()).replace(" GB/s", "");
    if (y1 == y2 && link.type() == LinkType.NVL) {
      canvas.arc(x1, y1 + BOX_HEIGHT / 2, x2, "#76b900", 1.5, 0, text);
    } else {
      String colour = link.type() == LinkType.NVL ? "#76b900" : "#888888";
      double width = Math.min(8, 1 + link.bandwidth() / 60);
      // From the lower edge of one box to the upper edge of the other, not behind a third.
      int edge = Integer.signum(y2 - y1) * BOX_HEIGHT / 2;
      canvas.line(x1, y1 + edge, x2, y2 - edge, colour, width, text);
    }
  }

  private void boxes() {
    centre.forEach(
        (node, x) ->
            canvas.box(
                x - BOX_WIDTH / 2, top.get(node), BOX_WIDTH, BOX_HEIGHT, fill(node), text(node)));
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

  private List<String> text(Node node) {
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

  /** Each different ring once, as arcs below the GPUs. */
  private void rings() {
    ChannelGraph ring = graphs.of(GraphKind.RING);
    List<List<Integer>> drawn = new ArrayList<>();
    for (Channel channel : ring.channels()) {
      if (!drawn.contains(channel.ranks()) && drawn.size() < COLOURS.length) {
        ring(channel, drawn.size());
        drawn.add(channel.ranks());
      }
    }
  }

  /** Between machines it comes in by one network card and goes out by another. */
  private void ring(Channel channel, int number) {
    List<Node> stops = new ArrayList<>(channel.ranks().stream().map(this::device).toList());
    if (!graphs.inter()) {
      stops.add(stops.get(0));
    } else if (channel.nets().size() == 2) {
      card(channel.nets().get(0)).ifPresent(card -> stops.add(0, card));
      card(channel.nets().get(1)).ifPresent(stops::add);
    }
    boolean alone = stops.stream().distinct().count() == 1;
    for (int i = 0; i + 1 < stops.size() && !alone; i++) {
      int x1 = centre.get(stops.get(i)) + 4 * number - 14;
      int x2 = centre.get(stops.get(i + 1)) + 4 * number - 14;
      int lower = 5 * number + pastSwitch(SvgCanvas.hang(x1, x2, 0));
      canvas.arc(x1, ROW_DEVICE + BOX_HEIGHT, x2, COLOURS[number], 2, lower, "");
    }
  }

  /** The box of a network, if it is in the picture. */
  private Optional<Node> card(Node net) {
    return centre.keySet().stream()
        .filter(node -> node.links().stream().anyMatch(link -> link.to() == net))
        .findFirst();
  }

  /** Returns how much lower a curve must hang to avoid passing behind the NVSwitch's box. */
  private int pastSwitch(int hang) {
    int bottom = ROW_DEVICE + BOX_HEIGHT + hang;
    int free = ROW_NVSWITCH + BOX_HEIGHT + GAP / 2;
    boolean hits = bottom > ROW_NVSWITCH - 2 * GAP && bottom < free;
    return hits && !machine.nvSwitches().isEmpty() ? (free - bottom) * 4 / 3 : 0;
  }

  private Node device(int rank) {
    return machine.gpuOfRank(rank).orElseThrow().parentDevice();
  }

  private void legend(int width) {
    ChannelGraph ring = graphs.of(GraphKind.RING);
    canvas.label(
        MARGIN,
        HEIGHT - 60,
        String.format(
            Locale.ROOT,
            "Rings: %d channels of %s each, over at most %s; every different order in its"
                + " colour.%s",
            ring.nChannels(),
            ReportText.gb(ring.bwIntra()),
            ring.typeIntra(),
            graphs.inter() ? " They go on to other machines through the network cards." : ""));
    canvas.label(
        MARGIN,
        HEIGHT - 38,
        "Links in GB/s, wider is faster: green NVLink, grey PCIe (PCI), between NUMA nodes (SYS)"
            + (width > 700 ? ", C2C." : "."));
  }
}
