package org.nccl4j.api.group;

import java.util.Map;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.ReductionOperator;

/**
 * The reductions of one rank that consist of several collectives with steps on the rank's own
 * memory between them: quantised sums, and reductions by a user's function. Owner: the thread that
 * is in the launcher.
 */
final class SteppedReductions {
  private final CommunicatorRank rank;
  private Planner planner;
  private Launcher launcher;

  /** Null for operations that do not travel quantised. Set before the first operation. */
  private QuantisedSums quantised;

  /** Null before the first reduction by a function that goes in steps. */
  private volatile FunctionReductions functions;

  SteppedReductions(CommunicatorRank rank) {
    this.rank = rank;
  }

  /** Sets what plans and launches from now on: before the first call, and after a suspension. */
  void attach(Planner newPlanner, Launcher newLauncher) {
    planner = newPlanner;
    launcher = newLauncher;
    if (quantised != null) {
      quantised.attach(newPlanner, newLauncher);
    }
  }

  /** Has all-reduces and reduce-scatters travel quantised; before the first operation. */
  void quantise(QuantisedSums.How how, QuantisedMemory memory) {
    quantised =
        new QuantisedSums(how, rank.rank(), rank.nRanks(), rank.device(), rank.who(), memory);
    quantised.attach(planner, launcher);
  }

  /** The quantised sums; null for operations that do not travel quantised. */
  QuantisedSums quantised() {
    return quantised;
  }

  /** True if such a call travels quantised. */
  @HotPath
  boolean isQuantised(long shape) {
    return quantised != null && QuantisedSums.takes(shape);
  }

  /** True if reductions by an operator go in steps; null, the shape's own, never does. */
  boolean takes(ReductionOperator operator) {
    return operator != null && FunctionReductions.takes(operator, rank.device());
  }

  private FunctionReductions functions() {
    if (functions == null) {
      functions = new FunctionReductions(rank.rank(), rank.nRanks(), rank.device());
    }
    return functions;
  }

  /** Throws for a reduction by a supplied operator that this device refuses. */
  void check(FunctionReductions.Reduced call) {
    FunctionReductions.check(call, rank.device(), rank.who());
  }

  /**
   * Makes the plans of a reduction that goes in steps, which its launch then finds.
   *
   * @param residual errors of a quantised sum; null where it keeps none
   * @return false, having done nothing, for any other operation
   */
  boolean prepare(long shape, long count, ReductionOperator operator, DeviceMemory residual) {
    if (takes(operator)) {
      functions().prepare(planner, shape, count, operator);
      return true;
    }
    if (operator == null && isQuantised(shape)) {
      quantised.prepare(shape, residual, count);
      return true;
    }
    return false;
  }

  /** Launches a reduction by a function that goes in steps. */
  void launch(FunctionReductions.Reduced call) {
    launcher.launching(FunctionReductions.MOST_LAUNCHES);
    functions().launch(planner, launcher, call);
  }

  /**
   * Launches a quantised sum.
   *
   * @param residual its errors; null where it keeps none
   */
  @HotPath
  void launchQuantised(
      long shape,
      DeviceMemory residual,
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DeviceStream stream) {
    launcher.launching(QuantisedSums.MOST_LAUNCHES);
    quantised.launch(shape, residual, send, recv, count, stream);
  }

  /** Predicted microseconds of an operation with elements, in steps or not. */
  double predict(long shape, long count, ReductionOperator operator) {
    if (takes(operator)) {
      return functions().predict(planner, shape, count, operator);
    }
    return isQuantised(shape) ? quantised.predict(shape, count) : planner.predict(shape, count);
  }

  /** Adds the bytes of the device's memory that the steps hold, by purpose. Any thread. */
  void addMemory(Map<String, Long> items) {
    FunctionReductions made = functions;
    if (made != null && made.bytes() > 0) {
      items.merge("reductions by functions", made.bytes(), Long::sum);
    }
    if (quantised != null && quantised.bytes() > 0) {
      items.put("quantised sums", quantised.bytes()); // of all dispatchers together
    }
  }

  /** Frees the memory of the steps, none of which runs; a later call allocates it anew. */
  void free() {
    if (quantised != null) {
      quantised.close();
    }
    if (functions != null) {
      functions.close();
    }
  }
}
