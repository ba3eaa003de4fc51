package org.nccl4j.topo.search;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.path.Path;
import org.nccl4j.topo.system.Link;
import org.nccl4j.topo.system.Node;

/**
 * The order in which the candidates for a channel's next GPU are tried. A search that ends early
 * depends on its first tries, so this order determines the result on large machines.
 */
final class GpuOrder {
  /** The target that the next step should be near. */
  enum Towards {
    /** The other GPUs only. */
    GPUS,
    /** The network, which comes right after. */
    NET,
    /** The network, which comes later. */
    NET_LATER
  }

  private record Score(
      int gpu, int distance, int hops, int bandwidth, int netHops, int pci, int netBandwidth) {}

  private static final Comparator<Score> BEST_FIRST =
      Comparator.comparingInt(Score::netBandwidth)
          .thenComparingInt(Score::pci)
          .reversed()
          .thenComparingInt(Score::netHops)
          .thenComparing(Comparator.comparingInt(Score::bandwidth).reversed())
          .thenComparingInt(Score::hops)
          .thenComparingInt(Score::distance);

  private static final int[] NOBODY = {};

  private final SearchSpace space;

  GpuOrder(SearchSpace space) {
    this.space = space;
  }

  int[] next(SearchState state, long[] used, int from, Towards towards) {
    if (!space.machine.nvSwitches().isEmpty()) {
      return freeNeighbours(state, used, from);
    }
    List<Score> scores = scores(state, used, from, towards != Towards.GPUS);
    scores.sort(BEST_FIRST);
    int[] order = scores.stream().mapToInt(Score::gpu).toArray();
    if (towards == Towards.NET_LATER && allEquallyNear(scores)) {
      for (int i = 0, j = order.length - 1; i < j; i++, j--) {
        int swap = order[i];
        order[i] = order[j];
        order[j] = swap;
      }
    }
    return order;
  }

  private List<Score> scores(SearchState state, long[] used, int from, boolean net) {
    int n = space.gpus.size();
    long flag = 1L << state.nChannels;
    Node netNode = net ? space.machine.nets().get(state.netIn(state.nChannels)) : null;
    List<Score> scores = new ArrayList<>(n);
    for (int distance = 1; distance < n; distance++) {
      int g = (from + distance) % n;
      Node gpu = space.gpus.get(g);
      Path path = space.path(space.gpus.get(from), gpu);
      if (path.hops() == 0 || (used[g] & flag) != 0) {
        continue;
      }
      int hops = path.hops();
      int bandwidth = (int) path.bandwidth();
      if (netNode == null) {
        scores.add(new Score(g, distance, hops, bandwidth, 0, 0, 0));
      } else {
        Path toNet = space.path(netNode, gpu);
        scores.add(
            new Score(
                g,
                distance,
                hops,
                bandwidth,
                toNet.hops(),
                pciBandwidth(gpu),
                (int) toNet.bandwidth()));
      }
    }
    return scores;
  }

  private int pciBandwidth(Node gpu) {
    Node device = gpu.parentDevice();
    for (Link up : device.links()) {
      if (up.type() != LinkType.PCI) {
        continue;
      }
      for (Link down : up.to().links()) {
        if (down.to() == device) {
          return (int) Math.min(space.capacity.of(up), space.capacity.of(down));
        }
      }
    }
    return -1;
  }

  private static boolean allEquallyNear(List<Score> scores) {
    return scores.stream()
        .allMatch(
            score ->
                score.bandwidth == scores.get(0).bandwidth && score.hops == scores.get(0).hops);
  }

  /**
   * NVSwitches do best when every GPU talks to few others, and all GPUs are equally near: only
   * neighbours are tried, which also keeps the search of a rack short.
   */
  private int[] freeNeighbours(SearchState state, long[] used, int from) {
    int n = space.gpus.size();
    int before = (from - 1 + n) % n;
    int after = (from + 1) % n;
    return switch (state.pattern) {
      case RING -> free(state, used, from, before, after);
      case SPLIT_TREE, BALANCED_TREE -> free(state, used, from, after, before);
      default -> free(state, used, from, after, after);
    };
  }

  private int[] free(SearchState state, long[] used, int from, int first, int second) {
    boolean firstFree = isFree(state, used, from, first);
    boolean secondFree = second != first && isFree(state, used, from, second);
    if (firstFree && secondFree) {
      return new int[] {first, second};
    }
    if (firstFree || secondFree) {
      return new int[] {firstFree ? first : second};
    }
    return NOBODY;
  }

  private boolean isFree(SearchState state, long[] used, int from, int gpu) {
    return gpu != from
        && (used[gpu] & (1L << state.nChannels)) == 0
        && space.path(space.gpus.get(from), space.gpus.get(gpu)).hops() > 0;
  }
}
