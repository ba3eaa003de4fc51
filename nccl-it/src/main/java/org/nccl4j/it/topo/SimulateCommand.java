package org.nccl4j.it.topo;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.Arrays;
import java.util.Collections;
import java.util.Locale;
import java.util.stream.Collectors;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.connect.CommGraph;
import org.nccl4j.topo.simulate.Simulation;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** {@code topo simulate}: a communicator over many such machines. */
@Command(
    name = "simulate",
    mixinStandardHelpOptions = true,
    description = "Ranks, rings, trees and predicted times of many such machines.")
final class SimulateCommand extends TopoAction {
  private static final int SHOWN_RANKS = 20;

  @Option(
      names = "--nodes",
      paramLabel = "N",
      defaultValue = "2",
      description = "How many machines.")
  private int nodes = 2;

  @Option(names = "--rings", description = "Print every ring in full.")
  private boolean rings;

  @Override
  void print(MachineOptions machine, PrintWriter out) throws IOException {
    Cluster cluster = machine.cluster(nodes);
    Simulation simulation = Simulation.of(cluster, machine.settings());
    if (machine.json()) {
      try (JsonGenerator json = json(out)) {
        write(json, machine.name(), simulation);
      }
    } else {
      text(out, simulation);
    }
  }

  private void text(PrintWriter out, Simulation simulation) {
    CommGraph comm = simulation.cluster().comm();
    new GraphText(out).summary(simulation.cluster());
    out.printf(
        Locale.ROOT,
        "%d rings, all closed; trees at most %d steps deep%n",
        simulation.rings(),
        Collections.max(simulation.treeDepths()));
    for (int c = 0; c < (rings ? comm.nChannels() : Math.min(2, comm.nChannels())); c++) {
      int[] order = comm.rings().order(c);
      String shown =
          Arrays.stream(order)
              .limit(rings ? order.length : SHOWN_RANKS)
              .mapToObj(String::valueOf)
              .collect(Collectors.joining(" "));
      out.printf("  ring %d: %s%s%n", c, shown, !rings && order.length > SHOWN_RANKS ? " ..." : "");
    }
    out.printf(
        "%n%-14s %12s  %-14s %-7s %9s %12s   other algorithms%n",
        "collective", "bytes", "algorithm", "proto", "channels", "us");
    for (Simulation.Prediction p : simulation.predictions()) {
      String others =
          p.ways().stream()
              .filter(way -> way.algorithm() != p.chosen().algorithm())
              .map(
                  way ->
                      String.format(Locale.ROOT, "%s %.1f", way.algorithm().label(), way.micros()))
              .collect(Collectors.joining(", "));
      out.printf(
          Locale.ROOT,
          "%-14s %12d  %-14s %-7s %9d %12.1f   %s%n",
          p.collective().label(),
          p.bytes(),
          p.chosen().algorithm().label(),
          p.chosen().protocol().label(),
          p.tuning().channels(),
          p.chosen().micros(),
          others);
    }
  }

  private void write(JsonGenerator json, String name, Simulation simulation) throws IOException {
    CommGraph comm = simulation.cluster().comm();
    json.writeStartObject();
    json.writeStringField("file", name);
    json.writeNumberField("machines", simulation.cluster().machines());
    json.writeNumberField("ranks", comm.shape().nRanks());
    json.writeNumberField("nodes", comm.shape().nNodes());
    json.writeNumberField("channels", comm.nChannels());
    json.writeNumberField("nvlsChannels", comm.nvlsChannels());
    json.writeArrayFieldStart("treeDepths");
    for (int depth : simulation.treeDepths()) {
      json.writeNumber(depth);
    }
    json.writeEndArray();
    if (rings) {
      json.writeArrayFieldStart("rings");
      for (int c = 0; c < comm.nChannels(); c++) {
        int[] order = comm.rings().order(c);
        json.writeArray(order, 0, order.length);
      }
      json.writeEndArray();
    }
    json.writeArrayFieldStart("predictions");
    for (Simulation.Prediction p : simulation.predictions()) {
      json.writeStartObject();
      json.writeStringField("collective", p.collective().label());
      json.writeNumberField("bytes", p.bytes());
      json.writeStringField("algorithm", p.chosen().algorithm().label());
      json.writeStringField("protocol", p.chosen().protocol().label());
      json.writeNumberField("timeUs", p.chosen().micros());
      json.writeNumberField("channels", p.tuning().channels());
      json.writeNumberField("threads", p.tuning().threads());
      json.writeObjectFieldStart("byAlgorithm");
      for (Simulation.Way way : p.ways()) {
        json.writeNumberField(way.algorithm().label(), way.micros());
      }
      json.writeEndObject();
      json.writeEndObject();
    }
    json.writeEndArray();
    json.writeEndObject();
  }
}
