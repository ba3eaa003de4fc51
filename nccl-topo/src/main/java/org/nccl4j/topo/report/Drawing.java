package org.nccl4j.topo.report;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.nccl4j.topo.search.Channel;
import org.nccl4j.topo.search.ChannelGraph;
import org.nccl4j.topo.search.GraphKind;
import org.nccl4j.topo.search.MachineGraphs;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;

/**
 * A machine as an SVG picture: a box per NUMA node with the devices below it, PCIe on top, GPUs in
 * a row, NVLinks below them, and the rings in colour.
 */
public final class Drawing {
  private static final int HEIGHT = 700;
  private static final String[] COLOURS = {
    "#d62728", "#1f77b4", "#2ca02c", "#ff7f0e", "#9467bd", "#17becf", "#8c564b", "#e377c2"
  };

  private final MachineGraphs graphs;
  private final Machine machine;
  private final SvgCanvas canvas = new SvgCanvas();
  private final MachineLayout layout;

  private Drawing(MachineGraphs graphs) {
    this.graphs = graphs;
    this.machine = graphs.routes().machine();
    this.layout = new MachineLayout(machine, canvas, 0);
  }

  /** The picture as an SVG document. */
  public static String of(MachineGraphs graphs, String title) {
    return new Drawing(graphs).draw(title);
  }

  private String draw(String title) {
    int width = layout.place(640);
    layout.links();
    rings();
    layout.boxes(MachineLayout::lines);
    legend(width);
    return canvas.document(width, HEIGHT, title);
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
      layout.card(channel.nets().get(0)).ifPresent(card -> stops.add(0, card));
      layout.card(channel.nets().get(1)).ifPresent(stops::add);
    }
    boolean alone = stops.stream().distinct().count() == 1;
    for (int i = 0; i + 1 < stops.size() && !alone; i++) {
      int x1 = layout.x(stops.get(i)) + 4 * number - 14;
      int x2 = layout.x(stops.get(i + 1)) + 4 * number - 14;
      int lower = 5 * number + pastSwitch(SvgCanvas.hang(x1, x2, 0));
      canvas.arc(x1, layout.devicesBottom(), x2, COLOURS[number], 2, lower, "");
    }
  }

  /** Returns how much lower a curve must hang to avoid passing behind the NVSwitch's box. */
  private int pastSwitch(int hang) {
    int bottom = layout.devicesBottom() + hang;
    int free = layout.nvSwitchTop() + MachineLayout.BOX_HEIGHT + MachineLayout.GAP / 2;
    boolean hits = bottom > layout.nvSwitchTop() - 2 * MachineLayout.GAP && bottom < free;
    return hits && !machine.nvSwitches().isEmpty() ? (free - bottom) * 4 / 3 : 0;
  }

  private Node device(int rank) {
    return machine.gpuOfRank(rank).orElseThrow().parentDevice();
  }

  private void legend(int width) {
    ChannelGraph ring = graphs.of(GraphKind.RING);
    canvas.label(
        MachineLayout.MARGIN,
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
        MachineLayout.MARGIN,
        HEIGHT - 38,
        "Links in GB/s, wider is faster: green NVLink, grey PCIe (PCI), between NUMA nodes (SYS)"
            + (width > 700 ? ", C2C." : "."));
  }
}
