package org.nccl4j.it.topo;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
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
      "This machine as a topology file (NCCL_TOPO_FILE).",
      "Without a driver's facts NVLinks are not known; pass a file for them."
    })
final class DetectCommand extends TopoAction {
  @Option(names = "--dump", description = "Write the topology file here (NCCL_TOPO_DUMP_FILE).")
  private Path dump;

  @Option(names = "--tree", description = "Print a tree to read, not the file.")
  private boolean tree;

  @Override
  void print(MachineOptions machine, PrintWriter out) throws IOException {
    XmlElement system = machine.system();
    String text = TopologyXml.write(system);
    if (dump != null) {
      Files.writeString(dump, text);
    }
    boolean readable = tree && !system.children().isEmpty();
    out.print(
        readable ? MachineTree.of(Cluster.routes(system, machine.options(false)).machine()) : text);
  }
}
