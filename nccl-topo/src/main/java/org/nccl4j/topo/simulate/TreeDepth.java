package org.nccl4j.topo.simulate;

import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.connect.CommGraph;

/** Walks a channel's tree over all ranks: checks that it is a tree, and measures its depth. */
final class TreeDepth {
  private TreeDepth() {}

  /** The longest way from a rank to the root, in steps. */
  static int of(CommGraph comm, int channel) {
    int ranks = comm.shape().nRanks();
    int[] up = new int[ranks];
    int[] depth = new int[ranks];
    int[] way = new int[ranks];
    for (int rank = 0; rank < ranks; rank++) {
      up[rank] = comm.trees().place(rank, channel).up();
    }
    int deepest = 0;
    for (int rank = 0; rank < ranks; rank++) {
      int length = 0;
      int at = rank;
      while (at >= 0 && depth[at] == 0) {
        if (length == ranks) {
          throw new TopologyException(
              "a tree has a cycle",
              "channel " + channel,
              "rank " + rank + " is below itself",
              "report it with the topology file");
        }
        way[length++] = at;
        at = up[at];
      }
      int above = at < 0 ? 0 : depth[at];
      while (length > 0) {
        depth[way[--length]] = ++above;
      }
      deepest = Math.max(deepest, depth[rank] - 1);
    }
    return deepest;
  }
}
