package org.nccl4j.it.topo;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.it.file.OutputFile;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.report.Drawing;
import org.nccl4j.topo.report.MachineTree;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** {@code topo show}: the machine as a tree to read, or as a picture. */
@Command(
    name = "show",
    mixinStandardHelpOptions = true,
    description = "The machine as a tree, or as a picture.")
final class ShowCommand extends TopoAction {
  @Option(
      names = "--svg",
      paramLabel = "FILE",
      description = "Draw the machine and its rings to this file.")
  private Path svg;

  @Option(
      names = "--nodes",
      paramLabel = "N",
      description =
          "With --svg or --json: one machine with its part of the rings among this number of"
              + " machines; default: 1.")
  private Integer nodes;

  @Override
  void print(MachineOptions machine, PrintWriter out) throws IOException {
    boolean dumps = machine.find(Settings.NCCL_GRAPH_DUMP_FILE).isPresent();
    if (svg == null && !machine.json() && !dumps) {
      machine.refuse(nodes != null, "--nodes", "a tree", "add --svg FILE or --json");
      // A tree needs no search, which takes seconds for a large machine.
      out.print(MachineTree.of(machine.routes(false).machine()));
      return;
    }
    Cluster cluster = machine.cluster(nodes == null ? 1 : nodes);
    if (svg != null) {
      OutputFile.write("--svg", svg, Drawing.of(cluster.domains().get(0), machine.name()));
    }
    if (machine.json()) {
      try (JsonGenerator json = json(out)) {
        json.writeStartObject();
        new PathsJson(json, cluster.domains().get(0)).write();
        json.writeEndObject();
      }
    } else {
      out.print(MachineTree.of(cluster.whole().machine()));
    }
  }
}
