package org.nccl4j.topo.connect;

import java.util.Arrays;
import org.nccl4j.topo.search.Channel;
import org.nccl4j.topo.search.GraphKind;
import org.nccl4j.topo.search.MachineGraphs;

/**
 * One node of a communicator: the graphs of its machine, or of a part of a machine, and the
 * communicator's ranks of that machine. Nodes of equal machines share the graphs. Immutable.
 */
public final class NodeGraphs {
  private final MachineGraphs graphs;
  private final int offset;
  private final int[] ranks;

  private NodeGraphs(MachineGraphs graphs, int offset, int[] ranks) {
    this.graphs = graphs;
    this.offset = offset;
    this.ranks = ranks;
  }

  /**
   * A node whose machine's ranks follow each other.
   *
   * @param graphs the graphs, whose ranks count from 0 on the machine
   * @param offset the communicator's rank of the machine's rank 0
   */
  public static NodeGraphs at(MachineGraphs graphs, int offset) {
    return new NodeGraphs(graphs, offset, null);
  }

  /**
   * A node with any ranks.
   *
   * @param graphs the graphs, whose ranks count from 0 on the machine
   * @param ranks the communicator's rank of each of the machine's, ascending
   */
  public static NodeGraphs of(MachineGraphs graphs, int[] ranks) {
    return new NodeGraphs(graphs, 0, ranks.clone());
  }

  /** The machine's graphs. */
  public MachineGraphs graphs() {
    return graphs;
  }

  /** The communicator's rank for one of the machine's. */
  public int rank(int onMachine) {
    return ranks == null ? onMachine + offset : ranks[onMachine];
  }

  /** The machine's rank for one of the communicator's that is on it. */
  int onMachine(int rank) {
    return ranks == null ? rank - offset : Arrays.binarySearch(ranks, rank);
  }

  /** Returns the number of ranks of the node. */
  public int size() {
    return graphs.routes().machine().gpus().size();
  }

  Channel channel(GraphKind kind, int channel) {
    return graphs.of(kind).channels().get(channel);
  }

  int rank(GraphKind kind, int channel, int step) {
    return rank(channel(kind, channel).ranks().get(step));
  }
}
