package org.nccl4j.it.trace;

import java.util.Map;
import org.nccl4j.operation.Operation;

/**
 * Something that took time on a rank.
 *
 * @param process where it was
 * @param communicator tells communicators of one name apart; the same on all ranks
 * @param track name of the row that it is drawn in
 * @param name of the span
 * @param call the number of a collective that ends on no rank before all ranks have called it; 0
 *     for everything else
 * @param beginNanos since 1970, by the clock of the process's host
 * @param readyNanos likewise; the end of the rank's operation before, where a span of that may be
 *     missing; 0 if it is unknown
 * @param endNanos likewise; equal to the begin for a moment
 * @param details to be shown with it
 */
record Span(
    RecordedProcess process,
    long communicator,
    String track,
    String name,
    long call,
    long beginNanos,
    long readyNanos,
    long endNanos,
    Map<String, Object> details) {

  /** Operations that this one stands for and that were not recorded. */
  long leftOut() {
    return details.get("every") instanceof Long every ? every - 1 : 0;
  }

  /** The name of the row of a communicator's rank. */
  static String track(String communicator, int rank) {
    return "%s, rank %d".formatted(communicator, rank);
  }

  /** True if no rank's call of an operation ends before all ranks have called. */
  static boolean waitsForAll(String operation) {
    return Operation.find(operation)
        .filter(found -> found.isOfAllRanks() && !found.isRooted())
        .isPresent();
  }

  /** A process of a recording. */
  record RecordedProcess(String host, long pid) {
    @Override
    public String toString() {
      return "process %d on %s".formatted(pid, host);
    }
  }
}
