package org.nccl4j.it.perf;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.perf.workload.Workload;

/**
 * What {@code perf} was told, checked.
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
   * How to measure.
   *
   * @param iterations none for automatic
   * @param warmup none for automatic
   * @param aggregate operations in a group
   * @param checks checked operations for each cell
   * @param explain whether to show the planner's tables
   */
  record How(
      OptionalInt iterations,
      OptionalInt warmup,
      int aggregate,
      int checks,
      boolean blocking,
      Averaging averaging,
      boolean explain) {}

  /**
   * The ranks.
   *
   * @param processes whether each is a process, or a thread of this one
   * @param settings of the communicator
   * @param transports allowed, best first; empty for all
   * @param deadlineSeconds of an operation
   */
  record Who(
      int count,
      boolean processes,
      Map<String, String> settings,
      List<String> transports,
      int deadlineSeconds) {}

  /**
   * Where the results go, beside the table.
   *
   * @param compareMpi whether to measure Open MPI too
   * @param progress whether somebody watches standard error
   */
  record Outputs(Optional<Path> json, Optional<Path> html, boolean compareMpi, boolean progress) {}
}
