package org.nccl4j.it.topo;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.util.concurrent.Callable;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.report.PathMatrix;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/** {@code topo paths}: how the devices reach each other. */
@Command(
    name = "paths",
    mixinStandardHelpOptions = true,
    description = "How GPUs, networks and CPUs reach each other: type and GB/s.")
final class PathsCommand implements Callable<Integer> {
  @Mixin private MachineOptions machine;

  @Override
  public Integer call() throws IOException {
    if (machine.json()) {
      Cluster cluster = Cluster.of(machine.routes(false), 1, machine.options(false));
      try (JsonGenerator json = new JsonFactory().createGenerator(machine.out())) {
        json.writeStartObject();
        new PathsJson(json, cluster.domains().get(0)).write();
        json.writeEndObject();
      }
    } else {
      machine.out().print(PathMatrix.of(machine.routes(false)));
    }
    machine.out().flush();
    return 0;
  }
}
