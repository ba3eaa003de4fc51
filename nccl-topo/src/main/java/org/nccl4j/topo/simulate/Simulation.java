package org.nccl4j.topo.simulate;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.connect.CommGraph;

/**
 * The rings and trees of a communicator over many machines. Every one is built and walked, so a
 * result is also a check.
 *
 * @param cluster the machines and their connections
 * @param rings how many rings were walked
 * @param treeDepths the depth of each channel's tree, in steps
 */
public record Simulation(Cluster cluster, int rings, List<Integer> treeDepths) {
  /** Copies the list. */
  public Simulation {
    treeDepths = List.copyOf(treeDepths);
  }

  /**
   * Walks a cluster's rings and trees.
   *
   * @throws TopologyException if a ring or a tree does not have every rank
   */
  public static Simulation of(Cluster cluster) {
    CommGraph comm = cluster.comm();
    List<Integer> depths = new ArrayList<>();
    for (int channel = 0; channel < comm.nChannels(); channel++) {
      checkRing(comm, channel);
      depths.add(TreeDepth.of(comm, channel));
    }
    return new Simulation(cluster, comm.nChannels(), depths);
  }

  private static void checkRing(CommGraph comm, int channel) {
    int[] ring = comm.rings().order(channel);
    BitSet seen = new BitSet(ring.length);
    for (int rank : ring) {
      seen.set(rank);
    }
    if (seen.cardinality() != comm.shape().nRanks()) {
      throw new TopologyException(
          "a ring does not visit every rank",
          "channel " + channel,
          "it has " + seen.cardinality() + " of " + comm.shape().nRanks() + " ranks",
          "report it with the topology file");
    }
  }
}
