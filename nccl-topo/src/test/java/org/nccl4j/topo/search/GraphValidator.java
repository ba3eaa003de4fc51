package org.nccl4j.topo.search;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.nccl4j.topo.Pattern;
import org.nccl4j.topo.path.Path;
import org.nccl4j.topo.system.Link;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;

/**
 * Checks graphs without the search: every channel has every GPU once, no link carries more than it
 * can at the speed that the graph claims, and no path is longer than it claims.
 */
public final class GraphValidator {
  private static final float MADE_UP = 0.1f;
  private static final double TOLERANCE = 0.02;

  private final MachineGraphs graphs;
  private final Machine machine;
  private final Map<Link, Double> load = new HashMap<>();

  private GraphValidator(MachineGraphs graphs) {
    this.graphs = graphs;
    this.machine = graphs.routes().machine();
  }

  /** Checks rings, trees and chains. */
  public static void check(MachineGraphs graphs) {
    new GraphValidator(graphs).ring();
    new GraphValidator(graphs).chain(GraphKind.TREE);
    if (graphs.of(GraphKind.COLLNET_CHAIN).nChannels() > 0) {
      new GraphValidator(graphs).chain(GraphKind.COLLNET_CHAIN);
    }
    new GraphValidator(graphs).nvls();
  }

  private void ring() {
    ChannelGraph graph = graphs.of(GraphKind.RING);
    assertTrue(graph.nChannels() > 0, "no ring");
    for (Channel channel : graph.channels()) {
      permutation(channel);
      List<Node> gpus = gpus(channel);
      for (int i = 0; i + 1 < gpus.size(); i++) {
        carry(graph, gpus.get(i), gpus.get(i + 1), graph.bwIntra());
      }
      if (channel.nets().isEmpty()) {
        if (gpus.size() > 1) {
          carry(graph, gpus.get(gpus.size() - 1), gpus.get(0), graph.bwIntra());
        }
      } else {
        carry(graph, channel.nets().get(0), gpus.get(0), graph.bwInter());
        carry(graph, gpus.get(gpus.size() - 1), channel.nets().get(1), graph.bwInter());
      }
    }
    noLinkIsOverloaded(graph);
  }

  private void chain(GraphKind kind) {
    ChannelGraph graph = graphs.of(kind);
    for (Channel channel : graph.channels()) {
      permutation(channel);
      List<Node> gpus = gpus(channel);
      for (int i = 0; i + 1 < gpus.size(); i++) {
        carry(graph, gpus.get(i), gpus.get(i + 1), graph.bwIntra());
      }
      if (!channel.nets().isEmpty()) {
        carry(graph, channel.nets().get(0), gpus.get(0), graph.bwInter());
        boolean balanced = graph.pattern() == Pattern.BALANCED_TREE;
        float share = balanced ? graph.bwInter() / 2 : graph.bwInter();
        carry(graph, gpus.get(0), channel.nets().get(1), share);
        if (balanced && gpus.size() > 1) {
          carry(graph, gpus.get(1), channel.nets().get(1), share);
        }
      }
    }
    noLinkIsOverloaded(graph);
  }

  private void nvls() {
    ChannelGraph graph = graphs.of(GraphKind.NVLS);
    List<Integer> heads = graph.channels().stream().map(Channel::first).toList();
    assertEquals(heads.stream().distinct().count(), heads.size(), "a head twice");
    if (!graphs.inter() && graph.nChannels() > 0) {
      assertEquals(Math.min(32, machine.gpus().size()), heads.size(), "all GPUs must pull");
    }
    for (int head : heads) {
      for (Node gpu : machine.gpus()) {
        float share = gpu.gpu().rank() == head ? 2 * graph.bwIntra() : graph.bwIntra();
        carryUnchecked(gpu, machine.nvSwitches().get(0), share);
        carryUnchecked(machine.nvSwitches().get(0), gpu, share);
      }
    }
    noLinkIsOverloaded(graph);
  }

  private void permutation(Channel channel) {
    assertEquals(
        machine.gpus().stream().map(gpu -> gpu.gpu().rank()).collect(Collectors.toSet()),
        channel.ranks().stream().collect(Collectors.toSet()));
    assertEquals(machine.gpus().size(), channel.ranks().size());
    assertEquals(graphs.inter() ? 2 : 0, channel.nets().size());
  }

  private List<Node> gpus(Channel channel) {
    return channel.ranks().stream().map(rank -> machine.gpuOfRank(rank).orElseThrow()).toList();
  }

  private void carry(ChannelGraph graph, Node from, Node to, float bandwidth) {
    Path path = graphs.routes().paths().path(from, to);
    // A channel that was made up goes whatever way there is.
    assertTrue(
        graph.bwIntra() == MADE_UP || path.type().within(graph.typeIntra().max(graph.typeInter())),
        graph.kind() + ": " + from + " to " + to + " is " + path.type());
    carryUnchecked(from, to, bandwidth);
  }

  private void carryUnchecked(Node from, Node to, float bandwidth) {
    for (Link link : graphs.routes().paths().path(from, to).links()) {
      load.merge(link, (double) bandwidth, Double::sum);
    }
  }

  private void noLinkIsOverloaded(ChannelGraph graph) {
    if (graph.bwIntra() == MADE_UP) {
      return;
    }
    load.forEach(
        (link, bandwidth) ->
            assertTrue(
                bandwidth <= link.bandwidth() + TOLERANCE,
                graph.kind()
                    + ": "
                    + bandwidth
                    + " over "
                    + link.type()
                    + " to "
                    + link.to()
                    + " of "
                    + link.bandwidth()));
  }
}
