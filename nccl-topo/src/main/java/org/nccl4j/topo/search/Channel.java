package org.nccl4j.topo.search;

import java.util.List;
import org.nccl4j.topo.system.Node;

/**
 * One channel of a graph.
 *
 * @param ranks the ranks in order; for NVLS the head only
 * @param nets where data comes in and goes out; empty within one machine
 */
public record Channel(List<Integer> ranks, List<Node> nets) {
  /** Copies the lists. */
  public Channel {
    ranks = List.copyOf(ranks);
    nets = List.copyOf(nets);
  }

  /** The first rank. */
  public int first() {
    return ranks.get(0);
  }
}
