package org.nccl4j.topo.simulate;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.connect.CommGraph;
import org.nccl4j.topo.tuning.ChannelTuning;
import org.nccl4j.topo.tuning.ChannelTuningModel;
import org.nccl4j.topo.tuning.NcclCostModel;
import org.nccl4j.topo.tuning.Selection;

/**
 * A simulated communicator over many machines. Every ring and tree is built and walked, so a result
 * is also a check.
 *
 * @param cluster the machines and their connections
 * @param rings how many rings were walked
 * @param treeDepths the depth of each channel's tree, in steps
 * @param predictions times by collective and size
 */
public record Simulation(
    Cluster cluster, int rings, List<Integer> treeDepths, List<Prediction> predictions) {

  private static final int SMALLEST_POWER = 10;
  private static final int LARGEST_POWER = 32;

  /** Copies the lists. */
  public Simulation {
    treeDepths = List.copyOf(treeDepths);
    predictions = List.copyOf(predictions);
  }

  /**
   * The time of one way to do an operation.
   *
   * @param algorithm the algorithm
   * @param micros microseconds with its best protocol
   * @param protocol that protocol
   */
  public record Way(Algorithm algorithm, Protocol protocol, float micros) {}

  /**
   * The predicted time of an operation.
   *
   * @param collective the operation
   * @param bytes its size
   * @param chosen the chosen algorithm
   * @param tuning its channels and threads
   * @param ways all algorithms, each with its best protocol
   */
  public record Prediction(
      Operation collective, long bytes, Selection chosen, ChannelTuning tuning, List<Way> ways) {
    /** Copies the list. */
    public Prediction {
      ways = List.copyOf(ways);
    }
  }

  /** Walks a cluster's rings and trees and predicts its times. */
  public static Simulation of(Cluster cluster, TopoSettings settings) {
    CommGraph comm = cluster.comm();
    List<Integer> depths = new ArrayList<>();
    for (int channel = 0; channel < comm.nChannels(); channel++) {
      checkRing(comm, channel);
      depths.add(TreeDepth.of(comm, channel));
    }
    List<Prediction> predictions = new ArrayList<>();
    ChannelTuningModel tuning = ChannelTuningModel.of(comm, settings);
    for (Operation collective : Operation.collectives()) {
      for (int power = SMALLEST_POWER; power <= LARGEST_POWER; power += 2) {
        predict(cluster.costs(), tuning, collective, 1L << power, predictions);
      }
    }
    return new Simulation(cluster, comm.nChannels(), depths, predictions);
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

  private static void predict(
      NcclCostModel costs,
      ChannelTuningModel tuning,
      Operation collective,
      long bytes,
      List<Prediction> predictions) {
    costs
        .select(collective, bytes)
        .ifPresent(
            chosen ->
                predictions.add(
                    new Prediction(
                        collective,
                        bytes,
                        chosen,
                        tuning.of(chosen.algorithm(), chosen.protocol(), bytes),
                        ways(costs, collective, bytes))));
  }

  private static List<Way> ways(NcclCostModel costs, Operation collective, long bytes) {
    List<Way> ways = new ArrayList<>();
    for (Algorithm algorithm : Algorithm.ofNccl()) {
      Way best = null;
      for (Protocol protocol : Protocol.values()) {
        float micros = costs.time(collective, algorithm, protocol, bytes);
        if (micros >= 0 && (best == null || micros < best.micros)) {
          best = new Way(algorithm, protocol, micros);
        }
      }
      if (best != null) {
        ways.add(best);
      }
    }
    return ways;
  }
}
