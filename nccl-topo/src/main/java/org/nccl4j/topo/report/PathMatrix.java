package org.nccl4j.topo.report;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.nccl4j.topo.path.Path;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;

/** Paths between devices as a table: type and GB/s. */
public final class PathMatrix {
  private static final int CELL = 12;

  private PathMatrix() {}

  /** GPUs by GPUs, networks, NUMA nodes and the NVSwitch. */
  public static String of(Routes routes) {
    Machine machine = routes.machine();
    List<Node> columns = new ArrayList<>(machine.gpus());
    columns.addAll(machine.nets());
    columns.addAll(machine.cpus());
    columns.addAll(machine.nvSwitches());
    List<Node> rows = new ArrayList<>(machine.gpus());
    rows.addAll(machine.nets());
    StringBuilder out = new StringBuilder(pad(""));
    columns.forEach(column -> out.append(pad(shortName(column))));
    out.append('\n');
    for (Node row : rows) {
      out.append(pad(shortName(row)));
      for (Node column : columns) {
        out.append(pad(cell(routes, row, column)));
      }
      out.append('\n');
    }
    return out.toString();
  }

  private static String cell(Routes routes, Node from, Node to) {
    if (from == to) {
      return "-";
    }
    Path path = routes.paths().path(from, to);
    return path.hops() == 0
        ? path.type().name()
        : String.format(Locale.ROOT, "%s %.4g", path.type(), path.bandwidth());
  }

  private static String shortName(Node node) {
    return switch (node.type()) {
      case GPU -> "GPU" + node.gpu().rank();
      case NET -> "NET" + node.key();
      case CPU -> "CPU" + node.key();
      default -> node.type().name();
    };
  }

  private static String pad(String text) {
    return String.format(Locale.ROOT, "%-" + CELL + "s", text);
  }
}
