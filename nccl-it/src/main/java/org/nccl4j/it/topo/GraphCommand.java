package org.nccl4j.it.topo;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.List;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.search.GraphFile;
import org.nccl4j.topo.xml.TopologyXml;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** {@code topo graph}: every graph of one or more machines, and what follows from them. */
@Command(
    name = "graph",
    mixinStandardHelpOptions = true,
    description = "The channels found, rings and trees across machines, and costs.")
final class GraphCommand extends TopoAction {
  @Option(
      names = "--nodes",
      paramLabel = "N",
      split = ",",
      defaultValue = "1",
      description = "Numbers of such machines, for example 1,2,4.")
  private List<Integer> nodes = List.of(1);

  @Option(
      names = "--collnet",
      description = "Also search for CollNet, as NCCL does with a network that reduces.")
  private boolean collNet;

  @Option(names = "--xml", description = "Print the first as a graph file (NCCL_GRAPH_FILE).")
  private boolean xml;

  @Override
  void print(MachineOptions machine, PrintWriter out) throws IOException {
    machine.refuse(xml && machine.json(), "--json", "--xml", "leave one of them out");
    List<Cluster> clusters = machine.clusters(nodes, machine.options(collNet));
    if (xml) {
      out.print(TopologyXml.write(GraphFile.write(clusters.get(0).domains().get(0))));
    } else if (machine.json()) {
      try (JsonGenerator json = json(out)) {
        new GraphJson(json).write(machine.name(), clusters, collNet);
      }
    } else {
      for (Cluster cluster : clusters) {
        new GraphText(out).write(cluster);
      }
    }
  }
}
