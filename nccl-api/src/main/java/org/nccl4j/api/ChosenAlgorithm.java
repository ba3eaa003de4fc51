package org.nccl4j.api;

import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Protocol;

/**
 * The algorithm and protocol of an operation.
 *
 * @param algorithm {@link Algorithm#PAIRWISE} for operations that consist of sends
 * @param protocol the protocol of its steps
 */
public record ChosenAlgorithm(Algorithm algorithm, Protocol protocol) {
  /** The choice of a planner. */
  static ChosenAlgorithm of(AlgorithmChoice choice) {
    return new ChosenAlgorithm(choice.algorithm(), choice.protocol());
  }
}
