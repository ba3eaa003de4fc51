package org.nccl4j.api.plan.trial;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * The times that one rank of a communicator has kept of its trials.
 *
 * @param communicator its number, the same in the files of all its ranks
 * @param ranks of the communicator, as in a table of {@code ./nccl tune}
 * @param device the name of the ranks' devices, as in a table of {@code ./nccl tune}
 * @param predictions microseconds by bytes of the whole data; rank 0's, empty of others
 * @param samples the measured calls
 * @param missing ranks of the machine that have not joined in this rank's folder; empty if all
 *     have, or if another rank tells of them
 */
public record TrialTimes(
    long communicator,
    String ranks,
    String device,
    Map<Way, TreeMap<Long, Double>> predictions,
    List<Sample> samples,
    List<Integer> missing) {
  /** An operation by an algorithm and a protocol. */
  public record Way(Operation operation, Algorithm algorithm, Protocol protocol) {
    /** Returns the way in the words of a table of {@code ./nccl tune}. */
    @Override
    public String toString() {
      return operation.label() + " " + algorithm.inTables() + " " + protocol.label();
    }
  }

  /**
   * A measured call.
   *
   * @param shape number of the call's shape and size, the same on all ranks
   * @param call its number among the calls of the shape, the same on all ranks
   * @param chosen whether the way is the planner's choice; else it was tried
   * @param bytes of the whole data
   * @param predicted microseconds
   * @param measured microseconds on this rank, with the time that it waited for other ranks
   */
  public record Sample(
      int shape,
      long call,
      boolean chosen,
      Way way,
      long bytes,
      double predicted,
      double measured) {}
}
