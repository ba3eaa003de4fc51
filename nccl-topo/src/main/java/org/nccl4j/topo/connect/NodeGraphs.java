package org.nccl4j.topo.connect;

import org.nccl4j.topo.search.Channel;
import org.nccl4j.topo.search.GraphKind;
import org.nccl4j.topo.search.MachineGraphs;

/**
 * One node of a communicator: the graphs of its machine, or of a part of a machine, and where its
 * ranks start. Nodes of equal machines share the graphs.
 *
 * @param graphs the graphs, whose ranks count from 0 on the machine
 * @param rankOffset what to add to get the communicator's ranks
 */
public record NodeGraphs(MachineGraphs graphs, int rankOffset) {

  /** How many ranks it has. */
  public int size() {
    return graphs.routes().machine().gpus().size();
  }

  Channel channel(GraphKind kind, int channel) {
    return graphs.of(kind).channels().get(channel);
  }

  int rank(GraphKind kind, int channel, int step) {
    return channel(kind, channel).ranks().get(step) + rankOffset;
  }
}
