package org.nccl4j.it.topo;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import org.nccl4j.it.file.OutputFile;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.report.MachineTree;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** {@code topo detect}: this machine as a topology file. */
@Command(
    name = "detect",
    mixinStandardHelpOptions = true,
    description = {
      "This machine as a topology file (NCCL_TOPO_FILE), with every port on its own.",
      "NVLinks come from NVML; without it from the atomics between GPUs, and a note says so."
    })
final class DetectCommand extends TopoAction {
  @Option(names = "--dump", paramLabel = "FILE", description = "Also write the topology file here.")
  private Path dump;

  @Option(names = "--tree", description = "Print a readable tree, not the file.")
  private boolean tree;

  @Override
  void print(MachineOptions machine, PrintWriter out) throws IOException {
    machine.refuse(tree && machine.json(), "--tree", "--json", "leave one of them out");
    XmlElement system = machine.found();
    if (dump != null) {
      OutputFile.write("--dump", dump, TopologyXml.write(system));
    }
    if (machine.json()) {
      try (JsonGenerator json = json(out)) {
        json.writeStartObject();
        json.writeStringField("machine", machine.name());
        json.writeStringField("gpusFrom", machine.gpusFrom());
        json.writeObjectFieldStart("system");
        new SystemJson(json).fields(system);
        json.writeEndObject();
        json.writeEndObject();
      }
    } else if (tree && !system.children().isEmpty()) {
      machine.refuseWithoutGpus();
      out.print(MachineTree.of(Cluster.routes(system, machine.options(false)).machine()));
    } else {
      out.print(TopologyXml.write(system));
    }
  }
}
