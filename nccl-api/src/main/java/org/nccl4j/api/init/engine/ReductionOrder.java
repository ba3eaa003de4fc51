package org.nccl4j.api.init.engine;

import java.util.List;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.DataType;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** The algorithms that a communicator may use for its order of reductions. */
final class ReductionOrder {
  private static final long[] COUNTS = {1, 1 << 10, 1 << 20};

  private ReductionOrder() {}

  /**
   * The algorithms that NCCL_ALGO allows, or those that the order of reductions needs.
   *
   * @throws InvalidUsageException if the two contradict each other
   */
  static AlgorithmFilter filter(Settings settings, AlgorithmFilter given) {
    if (!isSizeInvariant(settings)) {
      return given;
    }
    AlgorithmFilter inRankOrder = given.withOnly(Algorithm.inRankOrder());
    if (!given.allowsAllAlgorithms()
        && !given.algorithmText().equals(inRankOrder.algorithmText())) {
      throw new InvalidUsageException(
          ErrorId.DETERMINISM,
          "NCCL_ALGO=%s conflicts with NCCL4J_DETERMINISM=SIZE_INVARIANT"
              .formatted(settings.get(Settings.NCCL_ALGO)),
          "unset NCCL_ALGO, since only %s is SIZE_INVARIANT, or unset NCCL4J_DETERMINISM"
              .formatted(String.join(",", labels())));
    }
    return inRankOrder;
  }

  private static List<String> labels() {
    return Algorithm.inRankOrder().stream().map(Algorithm::label).toList();
  }

  /** Throws if the planner has no algorithm for the order. */
  static void check(Settings settings, Planner planner, String communicator, int nRanks) {
    if (!isSizeInvariant(settings) || nRanks == 1) {
      return;
    }
    for (Operation operation :
        new Operation[] {Operation.ALL_REDUCE, Operation.REDUCE, Operation.REDUCE_SCATTER}) {
      for (long count : COUNTS) {
        AlgorithmChoice choice = planner.choice(operation, count, DataType.FLOAT32);
        if (!Algorithm.inRankOrder().contains(choice.algorithm())) {
          throw new InvalidUsageException(
              ErrorId.DETERMINISM,
              "communicator %s can run %s only by %s, which is not SIZE_INVARIANT"
                  .formatted(communicator, operation.key(), choice),
              "unset NCCL4J_DETERMINISM, or use ranks that reach each other's memory");
        }
      }
    }
  }

  private static boolean isSizeInvariant(Settings settings) {
    return settings.get(PlanSettings.NCCL4J_DETERMINISM).equals("SIZE_INVARIANT");
  }
}
