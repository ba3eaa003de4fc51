package org.nccl4j.it.perf.rank;

import java.io.Serializable;
import java.util.Map;
import org.nccl4j.device.NcclException;
import org.nccl4j.it.perf.check.Verdict;

/** What a rank answers to an {@link Order}. */
public sealed interface Answer extends Serializable {
  /** Text that was asked for. */
  record Text(String text) implements Answer {}

  /**
   * Who this rank is.
   *
   * @param pid of its process
   * @param device its device's name
   * @param transports the transport to each other rank
   */
  record Joined(long pid, String device, Map<Integer, String> transports) implements Answer {}

  /**
   * What the planner decides.
   *
   * @param table the alternatives and the reason
   */
  record Explained(String algorithm, String protocol, String table) implements Answer {}

  /** How long all timed operations took together. */
  record Took(long nanos) implements Answer {}

  /** What was wrong. */
  record Checked(Verdict verdict) implements Answer {}

  /** The end. */
  record Left() implements Answer {}

  /** The order failed. */
  record Failed(NcclException.Code code, String problem, String remedy, String trace)
      implements Answer {
    /** The failure as an exception, with the rank's name in it. */
    public NcclException at(int rank) {
      return NcclException.of(code, "rank " + rank + ": " + problem, remedy, null);
    }
  }
}
