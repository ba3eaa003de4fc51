package org.nccl4j.api.plan.cost;

import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.cluster.CommTopology;

/**
 * NCCL's cost model of machines whose topology is known, for all algorithms over connections. An
 * algorithm that NCCL does not have uses the rings' values.
 *
 * @param topology the GPUs, searched and connected
 */
record NcclCosts(CommTopology topology) {
  /** True if the model has an algorithm by itself. */
  boolean has(Algorithm algorithm) {
    return modelled(algorithm) == algorithm;
  }

  /** True if an algorithm can hand steps of an all-reduce over by a protocol. */
  boolean has(Algorithm algorithm, Protocol protocol) {
    return topology.costs().cost(Operation.ALL_REDUCE, modelled(algorithm), protocol).available();
  }

  /**
   * Predicted microseconds; infinite where the model has no figure. NCCL has trees for all-reduce
   * alone. From one leaf to another, a broadcast or reduce takes as many steps as an all-reduce,
   * and it sends half of the bytes.
   */
  double microseconds(Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    return microseconds(operation, algorithm, protocol, bytes, Double.POSITIVE_INFINITY);
  }

  /**
   * The same where something else limits the bytes too.
   *
   * @param most GB/s of the whole data
   */
  double microseconds(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes, double most) {
    boolean oneWay = algorithm == Algorithm.TREE && operation.isRooted();
    Operation modelled = oneWay ? Operation.ALL_REDUCE : operation;
    int part = oneWay ? 2 : 1;
    float time =
        topology
            .costs()
            .time(modelled, modelled(algorithm), protocol, bytes / part, (float) (most / part));
    return time < 0 ? Double.POSITIVE_INFINITY : time;
  }

  /** Microseconds until what one GPU of a node stores for another has arrived, flags and all. */
  double handOver(Protocol protocol) {
    return topology.costs().handOver(protocol);
  }

  /** The same between GPUs of two nodes, over the network. */
  double handOverBetweenNodes(Protocol protocol) {
    return topology.costs().handOverBetweenNodes(protocol);
  }

  /**
   * Microseconds of a launch and of steps that follow each other, each as long as a ring's in
   * Simple, without the time of the bytes.
   *
   * @param within steps between GPUs of a node
   * @param between steps from node to node
   */
  double chain(Operation operation, int within, int between, long bytes) {
    return topology.costs().chain(operation, within, between, bytes);
  }

  /** Channels that share so many bytes, at most those that were searched. */
  int channels(Algorithm algorithm, Protocol protocol, long bytes) {
    return topology.tuning().of(modelled(algorithm), protocol, bytes).channels();
  }

  private static Algorithm modelled(Algorithm algorithm) {
    return Algorithm.ofNccl().contains(algorithm) ? algorithm : Algorithm.RING;
  }
}
