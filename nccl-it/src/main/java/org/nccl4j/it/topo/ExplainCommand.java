package org.nccl4j.it.topo;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.io.PrintWriter;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.report.Explanation;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** {@code topo explain}: why each link, path, transport and algorithm is as it is. */
@Command(
    name = "explain",
    mixinStandardHelpOptions = true,
    description =
        "The reason for each link, path, transport and algorithm, and the setting that"
            + " changes it.")
final class ExplainCommand extends TopoAction {
  @Option(
      names = "--nodes",
      paramLabel = "N",
      defaultValue = "1",
      description = "Number of such machines (default: ${DEFAULT-VALUE}).")
  private int nodes = 1;

  @Override
  void print(MachineOptions machine, PrintWriter out) throws IOException {
    Cluster cluster = machine.cluster(nodes);
    String text = Explanation.of(cluster, machine.settings());
    if (machine.json()) {
      try (JsonGenerator json = json(out)) {
        write(json, text);
      }
    } else {
      out.print(text);
    }
  }

  /** One array of sentences for each section. */
  private static void write(JsonGenerator json, String text) throws IOException {
    json.writeStartObject();
    boolean open = false;
    for (String line : text.split("\n")) {
      if (line.isEmpty()) {
        continue;
      }
      if (line.startsWith("  ")) {
        json.writeString(line.strip());
      } else {
        if (open) {
          json.writeEndArray();
        }
        json.writeArrayFieldStart(line);
        open = true;
      }
    }
    if (open) {
      json.writeEndArray();
    }
    json.writeEndObject();
  }
}
