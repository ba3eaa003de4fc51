package org.nccl4j.topo.connect;

import java.util.List;
import java.util.Optional;
import org.nccl4j.topo.search.GraphKind;
import org.nccl4j.topo.system.Node;

/** Rings over all nodes: each node's chain, one after the other. Immutable. */
public final class Rings {
  private final CommShape shape;
  private final int[] source;
  private final int searched;

  Rings(CommShape shape, int[] source, int searched) {
    this.shape = shape;
    this.source = source;
    this.searched = searched;
  }

  /** The ranks of a channel's ring, in order, from rank 0 on. */
  public int[] order(int channel) {
    int[] ring = new int[shape.nRanks()];
    int length = 0;
    int zero = 0;
    for (int n = 0; n < shape.nNodes(); n++) {
      NodeGraphs node = shape.nodes().get(n);
      int from = chain(node, n, source[channel] % searched);
      for (int step = 0; step < node.size(); step++) {
        int rank = node.rank(GraphKind.RING, from, step);
        zero = rank == 0 ? length : zero;
        ring[length++] = rank;
      }
    }
    int[] rotated = new int[length];
    System.arraycopy(ring, zero, rotated, 0, length - zero);
    System.arraycopy(ring, 0, rotated, length - zero, zero);
    return rotated;
  }

  /** The network by which a rank leaves its node in the first ring where it is before another. */
  Optional<Node> egress(int rank, int peer) {
    int here = shape.rankToNode()[rank];
    int next = (here + 1) % shape.nNodes();
    NodeGraphs node = shape.nodes().get(here);
    for (int each : source) {
      int from = chain(node, here, each % searched);
      int to = chain(shape.nodes().get(next), next, each % searched);
      List<Node> nets = node.channel(GraphKind.RING, from).nets();
      boolean leaves = node.rank(GraphKind.RING, from, node.size() - 1) == rank;
      if (leaves && shape.nodes().get(next).rank(GraphKind.RING, to, 0) == peer) {
        return nets.isEmpty() ? Optional.empty() : Optional.of(nets.get(1));
      }
    }
    return Optional.empty();
  }

  /**
   * Rings that change cards come in pairs, one the other backwards. Every second node swaps the
   * pairs, so that what leaves one node by a card enters the next by the card of the same rail.
   */
  private int chain(NodeGraphs node, int index, int channel) {
    boolean pairs = node.graphs().of(GraphKind.RING).crossNic() == 2 && searched % 2 == 0;
    return pairs && index % 2 == 1 ? channel ^ 1 : channel;
  }
}
