package org.nccl4j.api.observe;

import java.util.List;
import java.util.Optional;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Operation;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.kernel.CallMismatch;

/**
 * Two ranks whose recorders have different calls for the same collective. If the calls use
 * different connections, such ranks may wait for words that no rank writes.
 *
 * @param communicator its name
 * @param clause what the two call
 * @param launched operations that the other rank had launched when its recorder was read, or the
 *     number of the collective of its notice; if a later look finds another number, the conflict is
 *     not confirmed
 */
record CallConflict(String communicator, String clause, long launched) {
  /**
   * The conflict of a rank's oldest operation that has not ended.
   *
   * @param ranks reports of its communicator
   */
  static Optional<CallConflict> of(List<RankReport> ranks, int rank) {
    RankReport mine = find(ranks, rank);
    Operation call = mine == null ? null : mine.current();
    if (call == null || !call.isCollective() || mine.upTo() > call.number()) {
      return Optional.empty();
    }
    return ranks.stream()
        .filter(other -> other.rank() != rank && !other.failed())
        .filter(other -> differs(call, same(other, call)))
        .findFirst()
        .map(
            other ->
                new CallConflict(
                    mine.name(), clause(mine, call, other, same(other, call)), other.launched()));
  }

  /**
   * A clause on what a rank and another call; empty where it is not known, or the same. Data of a
   * rank that only sends come to a later call than that which they differ from, so the first
   * difference counts.
   */
  static String between(List<RankReport> ranks, int rank, int peer) {
    RankReport mine = find(ranks, rank);
    RankReport theirs = find(ranks, peer);
    if (mine == null || theirs == null || mine.current() == null) {
      return "";
    }
    for (Operation earlier : mine.operations()) {
      Operation same = earlier.isCollective() ? same(theirs, earlier) : null;
      if (differs(earlier, same)) {
        return clause(mine, earlier, theirs, same);
      }
    }
    Operation call = mine.current();
    Operation other = call.isCollective() ? same(theirs, call) : null;
    if (other == null) {
      other = theirs.current() == null ? theirs.last() : theirs.current();
    }
    return differs(call, other) ? clause(mine, call, theirs, other) : "";
  }

  /** The conflict of a rank's call with the one of another rank that has sent a notice of it. */
  static CallConflict between(RankReport mine, Operation call, CallNotice notice) {
    return new CallConflict(
        mine.name(),
        "as collective %d rank %d calls %s and rank %d calls %s"
            .formatted(call.collective(), mine.rank(), call.text(), notice.rank(), notice.text()),
        notice.collective());
  }

  private static boolean differs(Operation one, Operation other) {
    return other != null && !one.text().equals(other.text());
  }

  /** Returns a rank's call of the same collective; null if it is unknown. */
  private static Operation same(RankReport report, Operation call) {
    return report.collective(call.collective());
  }

  private static String clause(
      RankReport mine, Operation call, RankReport theirs, Operation other) {
    return call.isCollective() && other.isCollective() && call.collective() == other.collective()
        ? "as collective %d rank %d calls %s and rank %d calls %s"
            .formatted(call.collective(), mine.rank(), call.text(), theirs.rank(), other.text())
        : "rank %d is in %s and rank %d in %s"
            .formatted(mine.rank(), call.text(), theirs.rank(), other.text());
  }

  private static RankReport find(List<RankReport> ranks, int rank) {
    return ranks.stream().filter(report -> report.rank() == rank).findFirst().orElse(null);
  }

  InvalidUsageException error() {
    return new InvalidUsageException(
        ErrorId.CALLS_DIFFER,
        "the ranks of communicator %s make different calls: %s".formatted(communicator, clause),
        CallMismatch.REMEDY);
  }
}
