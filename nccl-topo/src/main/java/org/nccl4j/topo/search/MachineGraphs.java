package org.nccl4j.topo.search;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.system.Node;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;

/**
 * All graphs of one machine. Immutable; safe from any thread.
 *
 * @param routes the machine and its routes
 * @param inter whether the graphs lead to networks
 * @param nvlsSupported whether the NVSwitch may reduce
 * @param maxBandwidth the widest path a channel can use, in GB/s
 * @param totalBandwidth the most a GPU can send, in GB/s
 * @param byKind the graphs
 */
public record MachineGraphs(
    Routes routes,
    boolean inter,
    boolean nvlsSupported,
    float maxBandwidth,
    float totalBandwidth,
    Map<GraphKind, ChannelGraph> byKind) {

  private static final int MAX_RINGS = TopoSettings.MAX_CHANNELS / 2;
  private static final int HOPPER = 90;
  private static final int LARGE = 16;
  private static final long LARGE_STACK = 512L << 20;

  /** Copies the map. */
  public MachineGraphs {
    byKind = Map.copyOf(byKind);
  }

  /** The graph of a kind. */
  public ChannelGraph of(GraphKind kind) {
    return byKind.get(kind);
  }

  /**
   * Searches all graphs of a machine.
   *
   * @param routes the machine and its routes
   * @param settings NCCL_CROSS_NIC, NCCL_GRAPH_FILE and the like
   * @param inter whether there are ranks on other machines
   * @param collNet whether to search for CollNet too
   */
  public static MachineGraphs search(
      Routes routes, TopoSettings settings, boolean inter, boolean collNet) {
    if (routes.machine().gpus().size() <= LARGE) {
      return searchHere(routes, settings, inter, collNet);
    }
    return onLargeStack(() -> searchHere(routes, settings, inter, collNet));
  }

  /** The search nests one call per GPU and channel, too deep for a small stack on a rack. */
  private static MachineGraphs onLargeStack(Supplier<MachineGraphs> search) {
    MachineGraphs[] result = new MachineGraphs[1];
    RuntimeException[] failure = new RuntimeException[1];
    Thread thread =
        new Thread(
            null,
            () -> {
              try {
                result[0] = search.get();
              } catch (RuntimeException e) {
                failure[0] = e;
              }
            },
            "topology-search",
            LARGE_STACK);
    thread.setDaemon(true);
    thread.start();
    try {
      thread.join();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted while searching the topology", e);
    }
    if (failure[0] != null) {
      throw failure[0];
    }
    return result[0];
  }

  private static MachineGraphs searchHere(
      Routes routes, TopoSettings settings, boolean inter, boolean collNet) {
    SearchSpace space = new SearchSpace(routes, settings, inter);
    Optional<XmlElement> given =
        settings
            .find(TopoSettings.NCCL_GRAPH_FILE)
            .map(file -> TopologyXml.readGraphs(Path.of(file)));
    boolean nvls = nvlsSupported(routes, settings);
    Map<GraphKind, ChannelGraph> graphs = new EnumMap<>(GraphKind.class);
    ChannelGraph ring = one(space, given, GraphKind.RING, 1, MAX_RINGS);
    int n = ring.nChannels();
    graphs.put(GraphKind.RING, ring);
    graphs.put(GraphKind.TREE, one(space, given, GraphKind.TREE, n, n));
    for (GraphKind kind : new GraphKind[] {GraphKind.COLLNET_CHAIN, GraphKind.COLLNET_DIRECT}) {
      int min = kind == GraphKind.COLLNET_CHAIN ? n : 1;
      int max = kind == GraphKind.COLLNET_CHAIN ? n : TopoSettings.MAX_CHANNELS;
      graphs.put(
          kind, collNet ? one(space, given, kind, min, max) : ChannelGraph.none(kind, min, max));
    }
    int most = TopoSettings.MAX_CHANNELS;
    graphs.put(
        GraphKind.NVLS,
        nvls
            ? one(space, given, GraphKind.NVLS, 1, most)
            : ChannelGraph.none(GraphKind.NVLS, 1, most));
    return new MachineGraphs(routes, inter, nvls, space.maxBandwidth, space.totalBandwidth, graphs);
  }

  private static boolean nvlsSupported(Routes routes, TopoSettings settings) {
    return settings.nvlsEnabled()
        && routes.machine().gpus().size() > 1
        && !routes.machine().nvSwitches().isEmpty()
        && routes.machine().minSm() >= HOPPER;
  }

  private static ChannelGraph one(
      SearchSpace space, Optional<XmlElement> given, GraphKind kind, int min, int max) {
    Optional<ChannelGraph> read =
        given.flatMap(file -> GraphFile.read(file, kind, space.machine, space.settings));
    if (read.isPresent()) {
      return read.get();
    }
    return result(space, new GraphSearch(space, kind, min, max).search());
  }

  private static ChannelGraph result(SearchSpace space, SearchState state) {
    List<Channel> channels = new ArrayList<>();
    for (int c = 0; c < state.nChannels; c++) {
      List<Integer> ranks = new ArrayList<>();
      int length = state.kind == GraphKind.NVLS ? 1 : state.gpus;
      for (int step = 0; step < length; step++) {
        ranks.add(space.gpus.get(state.gpu(c, step)).gpu().rank());
      }
      channels.add(new Channel(ranks, nets(space, state, c)));
    }
    return new ChannelGraph(
        state.kind,
        state.pattern,
        state.crossNic,
        state.bwIntra,
        state.bwInter,
        state.latencyInter,
        state.typeIntra,
        state.typeInter,
        state.sameChannels,
        state.hops,
        state.minChannels,
        state.maxChannels,
        channels);
  }

  private static List<Node> nets(SearchSpace space, SearchState state, int channel) {
    int in = state.netIn(channel);
    int out = state.netOut(channel);
    if (!space.inter || in == SearchState.NO_NET || out == SearchState.NO_NET) {
      return List.of();
    }
    return List.of(space.machine.nets().get(in), space.machine.nets().get(out));
  }
}
