package org.nccl4j.api.observe;

import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;
import org.nccl4j.api.observe.flight.RankReport;

/**
 * Decides when a waiting rank's call is compared with the others', and when a difference is
 * confirmed: a recorder that is read while it is written may be off by one, so a conflict counts if
 * a second look finds it unchanged. Owner: the observer that has it, in its looks.
 */
final class CallWatch {
  /** Time that an operation waits before the first look. */
  static final long FIRST_MILLIS = 200;

  /** Between looks of different operations: ranks that always wait for a slow one shall not pay. */
  static final long APART_MILLIS = 1000;

  private static final long LONGEST_MILLIS = 30_000;

  private final int rank;
  private long operation = -1;
  private long since;
  private long next;
  private long last = Long.MIN_VALUE / 2;
  private CallConflict suspected;

  CallWatch(int rank) {
    this.rank = rank;
  }

  /**
   * The conflict that this rank is in, if that is sure.
   *
   * @param waiting the operation that waits for another rank, by how many ended before; -1 if none
   * @param reports of its communicator, read anew
   */
  Optional<CallConflict> look(long waiting, long nowMillis, Supplier<List<RankReport>> reports) {
    if (waiting < 0 || waiting != operation) {
      operation = waiting;
      since = nowMillis;
      next = Math.max(nowMillis + FIRST_MILLIS, last + APART_MILLIS);
      suspected = null;
      return Optional.empty();
    }
    if (nowMillis < next) {
      return Optional.empty();
    }
    last = nowMillis;
    next = nowMillis + Math.min(nowMillis - since, LONGEST_MILLIS);
    Optional<CallConflict> found = CallConflict.of(reports.get(), rank);
    if (found.isPresent() && found.get().equals(suspected)) {
      return found;
    }
    suspected = found.orElse(null);
    if (suspected != null) {
      next = nowMillis;
    }
    return Optional.empty();
  }
}
