package org.nccl4j.topo.search;

import java.math.BigDecimal;
import java.math.MathContext;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.IntUnaryOperator;
import org.nccl4j.topo.CNumber;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.Pattern;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;
import org.nccl4j.topo.xml.XmlElement;

/**
 * NCCL's graph files: NCCL_GRAPH_FILE is read instead of a search, NCCL_GRAPH_DUMP_FILE written.
 */
public final class GraphFile {
  private static final int HOST_SHIFT = 56;

  private GraphFile() {}

  /** The graph of a kind, if the file has one with channels. */
  static Optional<ChannelGraph> read(
      XmlElement file, GraphKind kind, Machine machine, TopoSettings settings) {
    for (XmlElement graph : file.children()) {
      boolean forbidden = settings.crossNic() == 0 && graph.requireInt("crossnic") == 1;
      if (graph.requireInt("id") == kind.id() && !forbidden) {
        return Optional.of(graph(graph, kind, machine)).filter(found -> found.nChannels() > 0);
      }
    }
    return Optional.empty();
  }

  private static ChannelGraph graph(XmlElement element, GraphKind kind, Machine machine) {
    int pattern = element.requireInt("pattern");
    if (pattern < 1 || pattern > Pattern.values().length) {
      throw element.error("pattern " + pattern + " is unknown", "use 1 to 6");
    }
    int channels = element.requireInt("nchannels");
    if (channels != element.children().size() || channels > TopoSettings.MAX_CHANNELS) {
      throw element.error(
          "nchannels=\"" + channels + "\" with " + element.children().size() + " channels",
          "write as many <channel> elements, at most " + TopoSettings.MAX_CHANNELS);
    }
    List<Channel> read = new ArrayList<>();
    for (XmlElement channel : element.children()) {
      read.add(channel(channel, kind, machine));
    }
    return new ChannelGraph(
        kind,
        Pattern.of(pattern),
        element.requireInt("crossnic"),
        number(element, "speedintra"),
        number(element, "speedinter"),
        element.text("latencyinter").isPresent() ? number(element, "latencyinter") : 0,
        type(element, "typeintra"),
        type(element, "typeinter"),
        element.requireInt("samechannels") != 0,
        0,
        channels,
        channels,
        read);
  }

  private static float number(XmlElement element, String key) {
    try {
      float value = Float.parseFloat(element.require(key));
      if (Float.isFinite(value) && value >= 0) {
        return value;
      }
    } catch (NumberFormatException e) {
      throw element.error(key + "=\"" + element.require(key) + "\" is not a number", "write GB/s");
    }
    throw element.error(key + "=\"" + element.require(key) + "\" is not a speed", "write GB/s");
  }

  private static PathType type(XmlElement element, String key) {
    return PathType.named(element.require(key))
        .orElseThrow(() -> element.error(key + " is not a path type", "use LOC, NVL ... SYS"));
  }

  private static Channel channel(XmlElement element, GraphKind kind, Machine machine) {
    List<Integer> ranks = new ArrayList<>();
    List<Node> nets = new ArrayList<>();
    for (XmlElement part : element.children()) {
      long dev = CNumber.hex(part.require("dev"));
      if (part.is("net")) {
        nets.add(net(part, dev, machine));
      } else {
        ranks.add(rank(part, dev, machine));
      }
    }
    int wanted = kind == GraphKind.NVLS ? 1 : machine.gpus().size();
    if (ranks.size() != wanted || ranks.stream().distinct().count() != wanted) {
      throw element.error(
          "has " + ranks.stream().distinct().count() + " different GPUs of " + wanted,
          "name every GPU of the machine once");
    }
    if (nets.size() != 0 && nets.size() != 2) {
      throw element.error("has " + nets.size() + " networks", "name two, or none");
    }
    return new Channel(ranks, nets);
  }

  private static Node net(XmlElement part, long id, Machine machine) {
    return machine.nets().stream()
        .filter(net -> ((long) net.host() << HOST_SHIFT) + net.id() == id)
        .findFirst()
        .orElseThrow(() -> part.error("is not a network of this machine", "check dev"));
  }

  private static int rank(XmlElement part, long dev, Machine machine) {
    // Devices come first. The same file serves all nodes, whose ranks differ.
    Optional<Node> gpu =
        machine
            .gpuOfDevice((int) (dev >>> HOST_SHIFT), (int) dev)
            .or(
                () ->
                    part.text("rank").isPresent()
                        ? machine.gpuOfRank(part.requireInt("rank"))
                        : Optional.empty());
    return gpu.orElseThrow(() -> part.error("is not a GPU of this machine", "check dev and rank"))
        .gpu()
        .rank();
  }

  /** The graphs as a file's top element, in NCCL's order, with the machine's own ranks. */
  public static XmlElement write(MachineGraphs graphs) {
    return write(graphs, rank -> rank);
  }

  /**
   * The graphs as a file's top element, in NCCL's order.
   *
   * @param ranks the number to write for each of the machine's ranks
   */
  public static XmlElement write(MachineGraphs graphs, IntUnaryOperator ranks) {
    XmlElement top = XmlElement.of("graphs").set("version", 1);
    for (GraphKind kind :
        new GraphKind[] {
          GraphKind.RING,
          GraphKind.TREE,
          GraphKind.COLLNET_DIRECT,
          GraphKind.COLLNET_CHAIN,
          GraphKind.NVLS
        }) {
      top.add(write(graphs.of(kind), graphs.routes().machine(), ranks));
    }
    return top;
  }

  private static XmlElement write(ChannelGraph graph, Machine machine, IntUnaryOperator ranks) {
    XmlElement element =
        XmlElement.of("graph")
            .set("id", graph.kind().id())
            .set("pattern", graph.pattern().id())
            .set("crossnic", graph.crossNic())
            .set("nchannels", graph.nChannels())
            .set("speedintra", plain(graph.bwIntra()))
            .set("speedinter", plain(graph.bwInter()))
            .set("latencyinter", plain(graph.latencyInter()))
            .set("typeintra", graph.typeIntra())
            .set("typeinter", graph.typeInter())
            .set("samechannels", graph.sameChannels() ? 1 : 0);
    for (Channel channel : graph.channels()) {
      XmlElement part = element.add(XmlElement.of("channel"));
      if (!channel.nets().isEmpty()) {
        part.add(net(channel.nets().get(0)));
      }
      for (int rank : channel.ranks()) {
        Node gpu = machine.gpuOfRank(rank).orElseThrow();
        long dev = ((long) gpu.host() << HOST_SHIFT) + gpu.gpu().dev();
        part.add(XmlElement.of("gpu").set("dev", hex(dev)).set("rank", ranks.applyAsInt(rank)));
      }
      if (!channel.nets().isEmpty()) {
        part.add(net(channel.nets().get(1)));
      }
    }
    return element;
  }

  private static XmlElement net(Node net) {
    return XmlElement.of("net").set("dev", hex(((long) net.host() << HOST_SHIFT) + net.id()));
  }

  private static String hex(long value) {
    return value == 0 ? "0" : "0x" + Long.toHexString(value);
  }

  /** Formats a number as %g in C: six digits, no trailing zeros. */
  private static String plain(float value) {
    return new BigDecimal(value).round(new MathContext(6)).stripTrailingZeros().toPlainString();
  }
}
