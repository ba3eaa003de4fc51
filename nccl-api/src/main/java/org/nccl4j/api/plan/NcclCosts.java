package org.nccl4j.api.plan;

import org.nccl4j.device.kernel.Algorithm;
import org.nccl4j.device.kernel.Operation;
import org.nccl4j.device.kernel.Protocol;
import org.nccl4j.topo.Collective;
import org.nccl4j.topo.cluster.CommTopology;

/**
 * NCCL's cost model of machines whose topology is known, in the engine's words. The model is in
 * nccl-topo, which has NCCL's lists of collectives, algorithms and protocols; only this file names
 * an entry of the engine's table together with its counterpart there.
 *
 * @param topology the GPUs, searched and connected
 */
record NcclCosts(CommTopology topology) {
  /** True if the model has an algorithm by itself. */
  boolean has(Algorithm algorithm) {
    return theirs(algorithm).name().equals(algorithm.name());
  }

  /** True if an algorithm can hand steps of an all-reduce over by a protocol. */
  boolean has(Algorithm algorithm, Protocol protocol) {
    return topology
        .costs()
        .cost(Collective.ALL_REDUCE, theirs(algorithm), theirs(protocol))
        .available();
  }

  /** Predicted microseconds; infinite where the model has no figure. */
  double microseconds(Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    Collective collective = Collective.valueOf(operation.name());
    float time = topology.costs().time(collective, theirs(algorithm), theirs(protocol), bytes);
    return time < 0 ? Double.POSITIVE_INFINITY : time;
  }

  /** Microseconds until what one GPU of a node stores for another has arrived, flags and all. */
  double handOver(Protocol protocol) {
    return topology.costs().handOver(theirs(protocol));
  }

  /** The same between GPUs of two nodes, over the network. */
  double handOverBetweenNodes(Protocol protocol) {
    return topology.costs().handOverBetweenNodes(theirs(protocol));
  }

  /** Channels that share so many bytes, at most those that were searched. */
  int channels(Algorithm algorithm, Protocol protocol, long bytes) {
    return topology.tuning().of(theirs(algorithm), theirs(protocol), bytes).channels();
  }

  /** The same algorithm there. One that NCCL does not have goes under the rings' conditions. */
  private static org.nccl4j.topo.Algorithm theirs(Algorithm algorithm) {
    for (org.nccl4j.topo.Algorithm one : org.nccl4j.topo.Algorithm.values()) {
      if (one.name().equals(algorithm.name())) {
        return one;
      }
    }
    return org.nccl4j.topo.Algorithm.RING;
  }

  private static org.nccl4j.topo.Protocol theirs(Protocol protocol) {
    return org.nccl4j.topo.Protocol.valueOf(protocol.name());
  }
}
