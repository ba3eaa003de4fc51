package org.nccl4j.it.topo;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.io.PrintWriter;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.report.PathMatrix;
import picocli.CommandLine.Command;

/** {@code topo paths}: how the devices reach each other. */
@Command(
    name = "paths",
    mixinStandardHelpOptions = true,
    description = "How GPUs, networks and CPUs reach each other: type and GB/s.")
final class PathsCommand extends TopoAction {
  @Override
  void print(MachineOptions machine, PrintWriter out) throws IOException {
    if (machine.json()) {
      Cluster cluster = machine.cluster(1);
      try (JsonGenerator json = json(out)) {
        json.writeStartObject();
        new PathsJson(json, cluster.domains().get(0)).write();
        json.writeEndObject();
      }
    } else {
      out.print(PathMatrix.of(machine.routes(false)));
    }
  }
}
