package org.nccl4j.it.perf.rank;

import java.io.Serializable;
import java.util.List;
import java.util.Map;
import org.nccl4j.device.DataType;
import org.nccl4j.it.perf.workload.Cell;

/** A command of the coordinator to a rank. */
public sealed interface Command extends Serializable {
  /** Make a unique id of a library and answer with its text. For rank 0. */
  record CreateId(Library library) implements Command {}

  /**
   * Join the communicator; answer with who you are.
   *
   * @param uniqueId its text; for ranks of one process any text that is not used again
   * @param settings of the communicator
   * @param transports allowed, best first; empty for all
   * @param deadlineSeconds of an operation
   * @param binding when each rank is bound to a core of its own, if there are enough
   */
  record Join(
      String uniqueId,
      Map<String, String> settings,
      List<String> transports,
      int deadlineSeconds,
      CoreBinding.Time binding)
      implements Command {}

  /**
   * Join a communicator of libnccl.
   *
   * @param library with or without windows
   */
  record JoinLibnccl(Library library, String uniqueId) implements Command {}

  /**
   * Make and close communicators of a library; answer with times and memory.
   *
   * @param uniqueIds two
   */
  record Costs(Library library, List<String> uniqueIds) implements Command {}

  /** Have the operations of {@link Library#QUANTISED} travel quantised; answer with nothing. */
  record Quantise(DataType format, int block) implements Command {}

  /** Run an operation; answer with the time. */
  record Measure(Cell cell, IterationPlan pace, Library library) implements Command {}

  /**
   * Run operations and a computation, alone and at the same time; answer with the times.
   *
   * @param calls operations
   * @param micros of the computation
   */
  record Overlap(Cell cell, int calls, double micros, Library library) implements Command {}

  /** Run an operation once on fresh data; answer with what was wrong. */
  record Check(Cell cell, long seed) implements Command {}

  /** Answer with the planner's table. For rank 0. */
  record Explain(Cell cell) implements Command {}

  /** Close everything and end. */
  record Leave() implements Command {}
}
