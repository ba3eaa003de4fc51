package org.nccl4j.api.init;

import org.nccl4j.api.plan.Planner;
import org.nccl4j.api.plan.Way;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.DataType;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.kernel.Operation;

/** Which algorithms a communicator may use, for the order in which it is to reduce. */
final class ReductionOrder {
  /** They combine every element in the order of the ranks. */
  private static final String IN_RANK_ORDER = "OneShot,TwoShot";

  private static final long[] COUNTS = {1, 1 << 10, 1 << 20};

  private ReductionOrder() {}

  /**
   * What NCCL_ALGO says, or what the order of reductions needs.
   *
   * @throws InvalidUsageException if the two contradict each other
   */
  static String algorithms(Settings settings) {
    String given = settings.get(Settings.NCCL_ALGO);
    if (!isSizeInvariant(settings)) {
      return given;
    }
    if (!given.isEmpty() && !given.equals(IN_RANK_ORDER)) {
      throw new InvalidUsageException(
          ErrorId.DETERMINISM,
          "NCCL_ALGO=%s is set where reductions are to be SIZE_INVARIANT".formatted(given),
          "unset NCCL_ALGO, since the order leaves only %s, or NCCL4J_DETERMINISM"
              .formatted(IN_RANK_ORDER));
    }
    return IN_RANK_ORDER;
  }

  /** Throws if the planner has no algorithm for the order. */
  static void check(Settings settings, Planner planner, String communicator, int nRanks) {
    if (!isSizeInvariant(settings) || nRanks == 1) {
      return;
    }
    for (Operation operation :
        new Operation[] {Operation.ALL_REDUCE, Operation.REDUCE, Operation.REDUCE_SCATTER}) {
      for (long count : COUNTS) {
        Way way = planner.way(operation, count, DataType.FLOAT32);
        if (!IN_RANK_ORDER.contains(way.algorithm())) {
          throw new InvalidUsageException(
              ErrorId.DETERMINISM,
              "communicator %s has %s by %s alone, which is not SIZE_INVARIANT"
                  .formatted(communicator, operation.key(), way),
              "unset NCCL4J_DETERMINISM, or use ranks that reach each other's memory");
        }
      }
    }
  }

  private static boolean isSizeInvariant(Settings settings) {
    return settings.get(PlanSettings.NCCL4J_DETERMINISM).equals("SIZE_INVARIANT");
  }
}
