package org.nccl4j.api;

import org.nccl4j.api.plan.algorithm.AlgorithmChoice;

/**
 * The algorithm and protocol of an operation.
 *
 * @param algorithm a name such as "Ring" or "TwoShot"; "Pairwise" for operations that consist of
 *     sends
 * @param protocol a name such as "LL" or "Simple"
 */
public record ChosenAlgorithm(String algorithm, String protocol) {
  /** The names of a planner's choice. */
  static ChosenAlgorithm of(AlgorithmChoice choice) {
    return new ChosenAlgorithm(choice.algorithm().label(), choice.protocol().label());
  }
}
