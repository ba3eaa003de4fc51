package org.nccl4j.it.perf.rank;

import java.io.Serializable;
import java.util.List;
import java.util.Map;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.support.ReceivedError;
import org.nccl4j.it.perf.check.CheckResult;

/** A rank's answer to an {@link Command}. */
public sealed interface Reply extends Serializable {
  /** Text that was asked for. */
  record Text(String text) implements Reply {}

  /**
   * The identity of a rank or of several ranks.
   *
   * @param pid of its process
   * @param devices the devices' names, one for each rank
   * @param transports the transport to each other rank
   * @param bound whether it stays on a core of its own
   */
  record Joined(long pid, List<String> devices, Map<Integer, String> transports, boolean bound)
      implements Reply {}

  /**
   * The costs of communicators.
   *
   * @param firstMillis the first creation
   * @param laterMillis the second, while the first was there
   * @param closeMillis the end of the second
   * @param createdBytes device memory after the first
   * @param usedBytes after a first all-reduce and a first all-to-all too
   * @param callMicros of the calling thread, for a warm all-reduce of 8 bytes
   */
  record Costs(
      double firstMillis,
      double laterMillis,
      double closeMillis,
      long createdBytes,
      long usedBytes,
      double callMicros)
      implements Reply {}

  /**
   * The planner's decision.
   *
   * @param table the alternatives and the reason
   */
  record Explained(String algorithm, String protocol, String table) implements Reply {}

  /**
   * The time of all timed operations together.
   *
   * @param blocks of one of them, on a GPU; 0 if they are unknown
   */
  record Took(long nanos, int blocks) implements Reply {
    /** Operations of unknown blocks. */
    public Took(long nanos) {
      this(nanos, 0);
    }
  }

  /**
   * Microseconds of a computation and of operations, alone and at the same time.
   *
   * @param blocks of an operation; 0 if they are unknown
   */
  record Overlapped(
      double computation,
      double operations,
      double computationBeside,
      double operationsBeside,
      int blocks)
      implements Reply {}

  /** The result of a check. */
  record Checked(CheckResult verdict) implements Reply {}

  /** The end. */
  record Left() implements Reply {}

  /**
   * The order failed.
   *
   * @param trace the stack trace
   */
  record Failed(ErrorId id, String problem, String remedy, String trace) implements Reply {
    /** The failure as an exception, with the rank's name in it; a defect has its stack trace. */
    public NcclException at(int rank) {
      String where = id == ErrorId.INTERNAL ? "\n" + trace.stripTrailing() : "";
      return ReceivedError.of(id, "rank " + rank + ": " + problem + where, remedy);
    }
  }
}
