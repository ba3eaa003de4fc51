package org.nccl4j.topo.search;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.Pattern;
import org.nccl4j.topo.path.Path;
import org.nccl4j.topo.system.Link;
import org.nccl4j.topo.system.Node;

/**
 * In which order to try the GPUs that may come next in a channel. A search that ends early is as
 * good as its first tries, so this decides what is found on large machines.
 */
final class GpuOrder {
  /** What the next step is to be near. */
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

  private final SearchSpace space;

  GpuOrder(SearchSpace space) {
    this.space = space;
  }

  int[] next(Draft draft, long[] used, int from, Towards towards) {
    List<Score> scores = scores(draft, used, from, towards != Towards.GPUS);
    scores.sort(BEST_FIRST);
    int[] order = scores.stream().mapToInt(Score::gpu).toArray();
    if (towards == Towards.NET_LATER && allEquallyNear(scores)) {
      for (int i = 0, j = order.length - 1; i < j; i++, j--) {
        int swap = order[i];
        order[i] = order[j];
        order[j] = swap;
      }
    }
    return space.machine.nvSwitches().isEmpty() ? order : neighbours(draft.pattern, from, order);
  }

  private List<Score> scores(Draft draft, long[] used, int from, boolean net) {
    int n = space.gpus.size();
    long flag = 1L << draft.nChannels;
    Node netNode = net ? space.machine.nets().get(draft.netIn(draft.nChannels)) : null;
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

  /** NVSwitches do best when every GPU talks to few others: only neighbours are tried. */
  private int[] neighbours(Pattern pattern, int from, int[] order) {
    int n = space.gpus.size();
    int before = (from - 1 + n) % n;
    int after = (from + 1) % n;
    int[] wanted;
    if (before == after) {
      wanted = new int[] {after};
    } else if (pattern == Pattern.RING) {
      wanted = new int[] {before, after};
    } else if (pattern == Pattern.SPLIT_TREE || pattern == Pattern.BALANCED_TREE) {
      wanted = new int[] {after, before};
    } else {
      wanted = new int[] {after};
    }
    int[] free = new int[wanted.length];
    int count = 0;
    for (int gpu : wanted) {
      for (int candidate : order) {
        if (candidate == gpu) {
          free[count++] = gpu;
        }
      }
    }
    return Arrays.copyOf(free, count);
  }
}
