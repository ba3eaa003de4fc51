package org.nccl4j.it.perf.rank;

import java.io.Serializable;
import java.util.List;
import java.util.Map;

/** What the coordinator can tell a rank to do. */
public sealed interface Order extends Serializable {
  /** Make a unique id and answer with its text. For rank 0. */
  record CreateId() implements Order {}

  /**
   * Join the communicator; answer with who you are.
   *
   * @param uniqueId its text; empty for ranks of one process
   * @param settings of the communicator
   * @param transports allowed, best first; empty for all
   * @param deadlineSeconds of an operation
   */
  record Join(
      String uniqueId, Map<String, String> settings, List<String> transports, int deadlineSeconds)
      implements Order {}

  /**
   * Run an operation; answer with the time.
   *
   * @param warmup operations before the clock starts
   * @param iterations timed, each of {@code aggregate} operations
   * @param aggregate operations in one group
   * @param blocking whether to wait for each iteration and for the other ranks
   */
  record Measure(Cell cell, int warmup, int iterations, int aggregate, boolean blocking)
      implements Order {}

  /** Run an operation once on fresh data; answer with what was wrong. */
  record Check(Cell cell, long seed) implements Order {}

  /** Answer with the planner's table. For rank 0. */
  record Explain(Cell cell) implements Order {}

  /** Close everything and end. */
  record Leave() implements Order {}
}
