package org.nccl4j.topo.tuning;

import java.util.Arrays;
import java.util.Locale;
import java.util.function.Function;
import org.nccl4j.topo.Algorithm;
import org.nccl4j.topo.Collective;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.Protocol;
import org.nccl4j.topo.TopoSetting;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.connect.AlignedGraph;
import org.nccl4j.topo.connect.CommGraph;
import org.nccl4j.topo.search.GraphKind;

/**
 * The algorithms and protocols that may be used, from NCCL_ALGO and NCCL_PROTO and the abilities of
 * the machine. The settings' grammar is {@code [collective:][^]name,name;...}: a list for all
 * collectives first, then lists for single ones; {@code ^} means all but these.
 */
final class EnabledAlgorithms {
  private enum Choice {
    YES,
    NO,
    BY_MACHINE
  }

  private static final int HOPPER = 90;
  private static final int VOLTA = 70;

  private final CommGraph comm;
  private final boolean nvSwitch;
  private final boolean ll128OverC2c;
  private final Choice[][] algorithms;
  private final Choice[][] protocols;

  EnabledAlgorithms(CommGraph comm, TopoSettings settings) {
    this.comm = comm;
    this.nvSwitch = !comm.shape().nodes().get(0).graphs().routes().machine().nvSwitches().isEmpty();
    this.ll128OverC2c = settings.get(TopoSettings.NCCL_LL128_C2C);
    this.algorithms = parse(settings, TopoSettings.NCCL_ALGO, Algorithm.values(), Algorithm::label);
    this.protocols = parse(settings, TopoSettings.NCCL_PROTO, Protocol.values(), Protocol::label);
  }

  boolean allows(Collective collective, Algorithm algorithm, Protocol protocol) {
    Choice chosen = protocols[collective.ordinal()][protocol.ordinal()];
    boolean byProtocol =
        (chosen == Choice.BY_MACHINE && protocol == Protocol.LL128)
            ? ll128Works(algorithm)
            : chosen != Choice.NO;
    boolean byAlgorithm = algorithms[collective.ordinal()][algorithm.ordinal()] != Choice.NO;
    return byProtocol && byAlgorithm && works(algorithm);
  }

  private boolean works(Algorithm algorithm) {
    boolean oneNode = comm.shape().nNodes() == 1;
    return switch (algorithm) {
      case NVLS_TREE -> !oneNode;
      case NVLS -> oneNode || comm.collNet();
      case COLLNET_CHAIN -> comm.collNet();
      case COLLNET_DIRECT -> comm.collNet() && nvSwitch;
      default -> true;
    };
  }

  /** LL128 needs stores of 128 bytes to arrive whole, which not every link guarantees. */
  private boolean ll128Works(Algorithm algorithm) {
    AlignedGraph graph = CostModel.graph(comm, algorithm);
    int min = comm.shape().minSm();
    PathType limit = ll128OverC2c && min >= HOPPER ? PathType.PXN : PathType.PXB;
    return graph.typeInter().within(limit)
        && graph.typeIntra().within(PathType.NVB)
        && (min == comm.shape().maxSm() || min >= HOPPER)
        && min >= VOLTA;
  }

  private static <E> Choice[][] parse(
      TopoSettings settings, TopoSetting<String> setting, E[] elements, Function<E, String> label) {
    Choice[][] choices = new Choice[Collective.values().length][elements.length];
    for (Choice[] row : choices) {
      Arrays.fill(row, Choice.BY_MACHINE);
    }
    String[] entries = settings.get(setting).split(";");
    for (int i = 0; i < entries.length; i++) {
      if (!entries[i].isEmpty()) {
        parseEntry(setting.name(), entries[i], i == 0, choices, elements, label);
      }
    }
    return choices;
  }

  private static <E> void parseEntry(
      String name,
      String entry,
      boolean first,
      Choice[][] choices,
      E[] elements,
      Function<E, String> label) {
    String[] parts = entry.split(":", 2);
    if (parts.length == 1 && !first) {
      throw error(name, entry, "only the first list may be for all collectives");
    }
    String list = parts[parts.length - 1];
    Choice named = list.startsWith("^") ? Choice.NO : Choice.YES;
    Choice others = named == Choice.NO ? Choice.YES : Choice.NO;
    boolean known = false;
    for (Collective collective : Collective.values()) {
      if (parts.length == 2 && !collective.label().equalsIgnoreCase(parts[0])) {
        continue;
      }
      known = true;
      Choice[] row = choices[collective.ordinal()];
      Arrays.fill(row, others);
      for (String element : (named == Choice.NO ? list.substring(1) : list).split(",")) {
        row[index(name, element, elements, label)] = named;
      }
    }
    if (!known) {
      throw error(name, entry, "'" + parts[0] + "' is not a collective");
    }
  }

  private static <E> int index(String name, String text, E[] elements, Function<E, String> label) {
    for (int i = 0; i < elements.length; i++) {
      if (label.apply(elements[i]).toLowerCase(Locale.ROOT).equals(text.toLowerCase(Locale.ROOT))) {
        return i;
      }
    }
    throw error(name, text, "it is not among those known");
  }

  private static TopologyException error(String name, String text, String why) {
    return new TopologyException(
        "A setting cannot be read",
        name + "=" + text,
        why,
        "Write for example " + name + "=\"ring,tree;allreduce:^tree\" with known names");
  }

  static GraphKind graphOf(Algorithm algorithm) {
    return switch (algorithm) {
      case TREE, PAT -> GraphKind.TREE;
      case RING -> GraphKind.RING;
      case COLLNET_DIRECT -> GraphKind.COLLNET_DIRECT;
      case COLLNET_CHAIN -> GraphKind.COLLNET_CHAIN;
      case NVLS, NVLS_TREE -> GraphKind.NVLS;
    };
  }
}
