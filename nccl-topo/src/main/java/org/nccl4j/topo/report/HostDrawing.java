package org.nccl4j.topo.report;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.system.Link;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;

/**
 * Draws a host at work: the processes whose ranks use the host's memory, that memory, the machine
 * if it is known, network cards whose place in it is not known, and the network.
 */
public final class HostDrawing {
  /** The memory that all processes of the host use. */
  public static final String MEMORY = "memory";

  /** Everything outside the host. */
  public static final String NETWORK = "network";

  private static final int ROW_PROCESS = 30;
  private static final int ROW_MEMORY = 130;
  private static final int BAR_HEIGHT = 26;
  private static final int LEAST_WIDTH = 300;
  private static final int TO_NETWORK = 70;

  private final SvgCanvas canvas = new SvgCanvas();
  private final List<Picture.Edge> edges = new ArrayList<>();

  /** Horizontal centre of each box. */
  private final Map<String, Integer> centre = new HashMap<>();

  /** Upper edge of each box. */
  private final Map<String, Integer> top = new HashMap<>();

  /** Text of each box that is not the machine's. */
  private final Map<String, String> names = new HashMap<>();

  private final Host host;

  private HostDrawing(Host host) {
    this.host = host;
  }

  /**
   * A box that the machine has not.
   *
   * @param id is unique in the picture
   */
  public record Box(String id, List<String> lines) {}

  /** A way between two boxes, of which only the ends are known. */
  public record Way(String from, String to) {}

  /**
   * A host.
   *
   * @param title of the picture
   * @param machine empty if it is not known
   * @param ranks of GPUs, as the second line of their boxes, by {@link Node#toString()}
   * @param processes whose ranks use the host's memory, or GPUs of an unknown machine
   * @param usesMemory ids of the processes that use the host's memory
   * @param cards that the machine does not have
   * @param ways that are not known
   */
  public record Host(
      String title,
      Optional<Machine> machine,
      Map<String, String> ranks,
      List<Box> processes,
      List<String> usesMemory,
      List<Box> cards,
      List<Way> ways) {}

  /** The picture. */
  public static Picture of(Host host) {
    return new HostDrawing(host).draw();
  }

  private Picture draw() {
    boolean memory = !host.usesMemory.isEmpty();
    int down = host.processes.isEmpty() ? 0 : memory ? ROW_MEMORY + BAR_HEIGHT : ROW_MEMORY;
    MachineLayout layout =
        host.machine.map(machine -> new MachineLayout(machine, canvas, down)).orElse(null);
    int boxes = host.processes.size() * MachineLayout.COLUMN + 2 * MachineLayout.MARGIN;
    int width = Math.max(LEAST_WIDTH, boxes);
    if (layout != null) {
      width = layout.place(width);
      place(layout);
    }
    int cardsTop = layout == null ? down + 70 : layout.devicesBottom() - MachineLayout.BOX_HEIGHT;
    int cardsLeft = layout == null ? 0 : width;
    width =
        Math.max(
            width, cardsLeft + host.cards.size() * MachineLayout.COLUMN + 2 * MachineLayout.MARGIN);
    row(host.processes, ROW_PROCESS, 0, width);
    row(host.cards, cardsTop, cardsLeft, width);
    int networkTop =
        (layout == null ? cardsTop + MachineLayout.BOX_HEIGHT : layout.bottom()) + TO_NETWORK;
    if (memory) {
      memoryLinks();
    }
    if (layout != null) {
      edges.addAll(layout.links());
    }
    boolean network = networkLinks(networkTop);
    host.ways.forEach(this::way);
    if (memory) {
      bar(MEMORY, ROW_MEMORY, width, "host memory");
    }
    if (network) {
      bar(NETWORK, networkTop, width, "network");
    }
    if (layout != null) {
      layout.boxes(this::lines);
    }
    host.processes.forEach(box -> box(box, "process", "#e8e3f5"));
    host.cards.forEach(box -> box(box, "nic", "#cfe2ff"));
    int height = network ? networkTop + BAR_HEIGHT : networkTop - TO_NETWORK;
    return new Picture(
        canvas.fixedDocument(width, height + MachineLayout.MARGIN, host.title), List.copyOf(edges));
  }

  private void place(MachineLayout layout) {
    for (Node node : host.machine.orElseThrow().nodes()) {
      if (layout.has(node)) {
        centre.put(node.toString(), layout.x(node));
        top.put(node.toString(), layout.y(node));
        names.put(node.toString(), MachineLayout.lines(node).get(0));
      }
    }
  }

  /** Places boxes in a row from left to right. */
  private void row(List<Box> boxes, int y, int left, int right) {
    for (int n = 0; n < boxes.size(); n++) {
      centre.put(boxes.get(n).id, left + (right - left) * (2 * n + 1) / (2 * boxes.size()));
      top.put(boxes.get(n).id, y);
      names.put(boxes.get(n).id, String.join(", ", boxes.get(n).lines));
    }
  }

  private void memoryLinks() {
    for (Box process : host.processes) {
      if (host.usesMemory.contains(process.id)) {
        String name = "host memory used by " + names.get(process.id);
        int x = centre.get(process.id);
        line(
            Picture.edge(process.id, MEMORY, name, 0),
            new int[] {x, ROW_PROCESS + MachineLayout.BOX_HEIGHT, x, ROW_MEMORY},
            "memory");
      }
    }
    for (Node cpu : host.machine.map(Machine::cpus).orElse(List.of())) {
      String name = "memory of " + ReportText.name(cpu);
      int x = centre.get(cpu.toString());
      line(
          Picture.edge(MEMORY, cpu.toString(), name, 0),
          new int[] {x, ROW_MEMORY + BAR_HEIGHT, x, top.get(cpu.toString())},
          "memory");
    }
  }

  /** Draws the links of all cards to the network; returns false if there is none. */
  private boolean networkLinks(int networkTop) {
    int before = edges.size();
    for (Node card : host.machine.map(machine -> machine.nodes(NodeType.NIC)).orElse(List.of())) {
      double gigabytes =
          card.links().stream()
              .filter(link -> link.type() == LinkType.NET)
              .mapToDouble(Link::bandwidth)
              .sum();
      if (centre.containsKey(card.toString()) && gigabytes > 0) {
        network(card.toString(), networkTop, gigabytes);
      }
    }
    host.cards.forEach(card -> network(card.id, networkTop, 0));
    return edges.size() > before;
  }

  private void network(String id, int networkTop, double gigabytes) {
    int x = centre.get(id);
    line(
        Picture.edge(id, NETWORK, "network of " + names.get(id), gigabytes),
        new int[] {x, top.get(id) + MachineLayout.BOX_HEIGHT, x, networkTop},
        gigabytes > 0 ? "NET " + ReportText.gb((float) gigabytes).replace(" GB/s", "") : "NET");
  }

  /** A dashed line, from the lower edge of one box to the upper edge of the other. */
  private void way(Way way) {
    int fromX = centre.getOrDefault(way.from, centre.get(way.to));
    int fromY =
        way.from.equals(MEMORY)
            ? ROW_MEMORY + BAR_HEIGHT
            : top.get(way.from) + MachineLayout.BOX_HEIGHT;
    String from = names.getOrDefault(way.from, "host memory");
    String name = "way between %s and %s, of which only the ends are known";
    Picture.Edge edge = Picture.edge(way.from, way.to, name.formatted(from, names.get(way.to)), 0);
    edges.add(edge);
    canvas.begin("link unknown", edge.id(), edge.name());
    canvas.line(fromX, fromY, centre.get(way.to), top.get(way.to), "#888888", 1, "?");
    canvas.end();
  }

  private void line(Picture.Edge edge, int[] ends, String text) {
    edges.add(edge);
    canvas.begin("link", edge.id(), edge.name());
    canvas.line(ends[0], ends[1], ends[2], ends[3], "#888888", 1, text);
    canvas.end();
  }

  private void bar(String id, int y, int width, String text) {
    canvas.begin("node " + id, id, "");
    canvas.box(
        MachineLayout.MARGIN / 2,
        y,
        width - MachineLayout.MARGIN,
        BAR_HEIGHT,
        "#f3f0e6",
        List.of(text));
    canvas.end();
  }

  private void box(Box box, String kind, String fill) {
    canvas.begin("node " + kind, box.id, "");
    canvas.box(
        centre.get(box.id) - MachineLayout.BOX_WIDTH / 2,
        top.get(box.id),
        MachineLayout.BOX_WIDTH,
        MachineLayout.BOX_HEIGHT,
        fill,
        box.lines);
    canvas.end();
  }

  private List<String> lines(Node node) {
    String ranks = host.ranks.get(node.toString());
    return ranks == null
        ? MachineLayout.lines(node)
        : List.of(MachineLayout.lines(node).get(0), ranks);
  }
}
