package org.nccl4j.api.plan;

import org.nccl4j.device.kernel.Algorithm;
import org.nccl4j.device.kernel.Operation;

/** The number of successive hand-overs of a collective. */
final class StepCount {
  private StepCount() {}

  /**
   * The longest chain of hand-overs from rank to rank.
   *
   * @throws IllegalArgumentException for what {@link NvlsCostModel} predicts
   */
  static double of(Operation operation, Algorithm algorithm, int nRanks) {
    int around = nRanks - 1;
    return switch (algorithm) {
      case RING -> operation == Operation.ALL_REDUCE ? 2 * around : around;
      case TREE -> 2 * Math.ceil(Math.log(nRanks) / Math.log(2)) + 1;
      case ONE_SHOT -> 1;
      case TWO_SHOT -> 2;
      case PAT -> Math.ceil(Math.log(nRanks) / Math.log(2));
      default -> throw new IllegalArgumentException(algorithm.label());
    };
  }
}
