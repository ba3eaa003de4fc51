package org.nccl4j.it.perf;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.perf.rank.RegistrationMode;
import org.nccl4j.it.perf.workload.Workload;
import org.nccl4j.it.run.Placement;

/**
 * The checked options of {@code perf}.
 *
 * @param what the combinations to measure
 * @param how long and how
 * @param ranks who
 * @param outputs where the results go
 */
record PerfSettings(What what, How how, Who ranks, Outputs outputs) {
  /**
   * The combinations to measure.
   *
   * @param roots for workloads with one
   */
  record What(
      List<Workload> workloads,
      SizeRange sizes,
      List<DataType> types,
      List<RedOp> ops,
      List<Integer> roots) {}

  /**
   * The options of measuring.
   *
   * @param iterations none for automatic
   * @param warmup none for automatic
   * @param jitWarmupMillis how long all sizes run before a sweep
   * @param aggregate operations in a group
   * @param checks checked operations for each cell
   * @param graph iterations in a CUDA graph; 0 for none
   * @param explain whether to show the planner's tables
   * @param blocks whether to show the blocks of GPUs
   * @param overlap whether to measure operations beside a computation instead
   */
  record How(
      OptionalInt iterations,
      OptionalInt warmup,
      int jitWarmupMillis,
      int aggregate,
      int checks,
      boolean blocking,
      int graph,
      Averaging averaging,
      boolean explain,
      boolean blocks,
      boolean overlap) {}

  /**
   * The ranks.
   *
   * @param drives ranks of one thread
   * @param kind of their devices
   * @param processes whether each is a process, or a thread of this one
   * @param placement of the processes
   * @param settings of the communicator
   * @param transports allowed, best first; empty for all
   * @param deadlineSeconds of an operation
   * @param registration of their buffers
   * @param bound whether each stays on a core of its own, if there are enough
   */
  record Who(
      int count,
      int drives,
      Device.Kind kind,
      boolean processes,
      Placement placement,
      Map<String, String> settings,
      List<String> transports,
      int deadlineSeconds,
      RegistrationMode registration,
      boolean bound) {}

  /**
   * The outputs besides the table.
   *
   * @param comparison what to measure too
   * @param watching outputs that are shown while it runs
   */
  record Outputs(
      Optional<Path> json, Optional<Path> html, Comparison comparison, Watching watching) {}

  /** The outputs during a run. */
  enum Watching {
    /** Nothing that progress could be shown on. */
    NOTHING,
    /** The table as it grows: progress is shown where no rows come. */
    ROWS,
    /** Standard error alone: progress is shown all the time. */
    ERRORS
  }
}
