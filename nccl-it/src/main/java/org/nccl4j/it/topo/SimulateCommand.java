package org.nccl4j.it.topo;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.nccl4j.api.init.costs.ClusterChoices;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.api.plan.cost.CostModel;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.operation.Operation;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.connect.CommGraph;
import org.nccl4j.topo.simulate.Simulation;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** {@code topo simulate}: a communicator over many such machines. */
@Command(
    name = "simulate",
    mixinStandardHelpOptions = true,
    description = {
      "Rings and trees of many such machines, and what a communicator over them would choose.",
      "Times and choices are those of nccl4j's planner, for float32 over connections. Without"
          + " windows and NVLink SHARP. The network is InfiniBand, or the first that NCCL_NET names."
    })
final class SimulateCommand extends TopoAction {
  private static final int SHOWN_RANKS = 20;
  private static final int SHOWN_WAYS = 3;
  private static final int SMALLEST_POWER = 10;
  private static final int LARGEST_POWER = 32;

  @Option(
      names = "--nodes",
      paramLabel = "N",
      defaultValue = "2",
      description = "Number of machines (default: ${DEFAULT-VALUE}).")
  private int nodes = 2;

  @Option(
      names = "--model",
      paramLabel = "NAME",
      defaultValue = "",
      description =
          "The GPUs' model as the driver names it, such as \"NVIDIA H200\", for times that were"
              + " measured on it (NVIDIA H200: 2 to 4 GPUs of one machine); default: none, since"
              + " topology files have no names.")
  private String model = "";

  @Option(names = "--rings", description = "Print every ring in full.")
  private boolean rings;

  @Override
  void print(MachineOptions machine, PrintWriter out) throws IOException {
    ClusterOptions options = ClusterChoices.searching(machine.options(false));
    Cluster cluster = machine.clusters(List.of(nodes), options).get(0);
    Simulation simulation = Simulation.of(cluster);
    ClusterChoices planner = planner(machine.values(), cluster);
    List<ClusterChoices.Choice> choices = choices(planner, cluster.comm().shape().nRanks());
    if (machine.json()) {
      try (JsonGenerator json = json(out)) {
        write(json, machine.name(), simulation, planner, choices);
      }
    } else {
      text(out, simulation, planner, choices);
    }
  }

  private ClusterChoices planner(Settings settings, Cluster cluster) {
    int ranks = cluster.comm().shape().nRanks();
    return ClusterChoices.of(settings, cluster, model, ModelledNetwork.of(settings, ranks));
  }

  /** For all sizes with an element for each rank at least. */
  private static List<ClusterChoices.Choice> choices(ClusterChoices planner, int ranks) {
    List<ClusterChoices.Choice> choices = new ArrayList<>();
    Stream.concat(Operation.ofAllRanks().stream(), Stream.of(Operation.SEND))
        .forEach(
            operation -> {
              for (int power = SMALLEST_POWER; power <= LARGEST_POWER; power += 2) {
                long count = (1L << power) / Float.BYTES / operation.wholes(ranks);
                if (count > 0) {
                  choices.add(planner.choose(operation, count));
                }
              }
            });
    return choices;
  }

  private void text(
      PrintWriter out,
      Simulation simulation,
      ClusterChoices planner,
      List<ClusterChoices.Choice> choices) {
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
    List<String> sources = choices.stream().map(ClusterChoices.Choice::source).distinct().toList();
    out.printf("%nchoices of nccl4j's planner; costs: %s%n", planner.source());
    if (!model.isEmpty() && !planner.source().startsWith("measured")) {
      int machines = simulation.cluster().machines();
      out.printf(
          "no measured times of %d %s on %s%n",
          comm.shape().nRanks(), model, GraphText.count(machines, "machine"));
    }
    for (int s = 0; s < sources.size(); s++) {
      out.printf("  [%d] %s%n", s + 1, sources.get(s));
    }
    out.printf(
        "%n%-14s %12s  %-10s %-7s %8s %12s %4s %12s   other ways%n",
        "operation", "bytes", "algorithm", "proto", "channels", "us", "from", "saves us");
    for (ClusterChoices.Choice choice : choices) {
      AlgorithmChoice chosen = choice.chosen();
      out.printf(
          Locale.ROOT,
          "%-14s %12d  %-10s %-7s %8s %12.1f  [%d] %12s   %s%n",
          choice.operation().label(),
          choice.bytes(),
          chosen.algorithm().label(),
          chosen.protocol().label(),
          choice.channels() == 0 ? "-" : choice.channels(),
          chosen.microseconds(),
          sources.indexOf(choice.source()) + 1,
          choice.nextBest().isEmpty() ? "-" : "%.1f".formatted(choice.saves()),
          others(choice));
    }
    out.println(savings(choices));
  }

  /** The best of the other ways. */
  private static String others(ClusterChoices.Choice choice) {
    List<AlgorithmChoice> ways = choice.ways();
    int end = Math.min(ways.size(), 1 + SHOWN_WAYS);
    return ways.subList(1, end).stream()
            .map(SimulateCommand::other)
            .collect(Collectors.joining(", "))
        + (end < ways.size() ? ", ..." : "");
  }

  /** Another way and its time. */
  private static String other(AlgorithmChoice way) {
    double micros = CostModel.predicted(way.microseconds());
    return String.format(
        Locale.ROOT,
        "%s %.1f%s",
        way,
        micros,
        micros == way.microseconds() ? "" : " if NCCL_ALGO names it");
  }

  /** The savings of the choices, as a line to read. */
  private static String savings(List<ClusterChoices.Choice> choices) {
    List<ClusterChoices.Choice> among =
        choices.stream().filter(choice -> choice.nextBest().isPresent()).toList();
    if (among.isEmpty()) {
      return "None of them has another way.";
    }
    double logs = among.stream().mapToDouble(choice -> Math.log(gain(choice))).sum();
    ClusterChoices.Choice most =
        Collections.max(among, Comparator.comparingDouble(SimulateCommand::gain));
    return String.format(
        Locale.ROOT,
        "%d of %d have another way. There the next best takes %.2f times as long (geometric mean),"
            + " at most %.2f times: %s of %d bytes by %s instead of %s.",
        among.size(),
        choices.size(),
        Math.exp(logs / among.size()),
        gain(most),
        most.operation().label(),
        most.bytes(),
        most.nextBest().orElseThrow(),
        most.chosen());
  }

  /** The next best way's time in terms of the chosen one's. */
  private static double gain(ClusterChoices.Choice choice) {
    return choice.nextBest().orElseThrow().microseconds() / choice.chosen().microseconds();
  }

  private void write(
      JsonGenerator json,
      String name,
      Simulation simulation,
      ClusterChoices planner,
      List<ClusterChoices.Choice> choices)
      throws IOException {
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
    json.writeStringField("costs", planner.source());
    json.writeArrayFieldStart("predictions");
    for (ClusterChoices.Choice choice : choices) {
      json.writeStartObject();
      json.writeStringField("collective", choice.operation().label());
      json.writeNumberField("bytes", choice.bytes());
      writeWay(json, choice.chosen());
      json.writeNumberField("channels", choice.channels());
      json.writeStringField("source", choice.source());
      json.writeNumberField("savesUs", choice.saves());
      json.writeArrayFieldStart("others");
      for (AlgorithmChoice way : choice.ways().subList(1, choice.ways().size())) {
        json.writeStartObject();
        writeWay(json, way);
        json.writeBooleanField("onlyIfNamed", way.microseconds() >= CostModel.ONLY_WHERE_ASKED);
        json.writeEndObject();
      }
      json.writeEndArray();
      json.writeEndObject();
    }
    json.writeEndArray();
    json.writeEndObject();
  }

  private static void writeWay(JsonGenerator json, AlgorithmChoice way) throws IOException {
    json.writeStringField("algorithm", way.algorithm().label());
    json.writeStringField("protocol", way.protocol().label());
    json.writeNumberField("timeUs", CostModel.predicted(way.microseconds()));
  }
}
