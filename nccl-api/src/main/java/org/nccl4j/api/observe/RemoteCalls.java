package org.nccl4j.api.observe;

import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Operation;

/**
 * Compares a rank's calls with those of ranks on other hosts, by {@link CallNotice}s. A rank that
 * has waited in a collective for about a second sends its call; if another rank's call of the same
 * number differs, neither can end.
 *
 * <p>A recorder that is read while it is written may be off by one, so a difference counts if a
 * second look finds it unchanged. If many ranks wait for a slow one, few of them send notices: they
 * begin at different times, and a rank that has received a call equal to its own sends none.
 *
 * <p>Owner: the monitor that has it, in its looks; but any thread may call {@link #hear}.
 */
final class RemoteCalls {
  /** Time that an operation waits before its notice. */
  static final long FIRST_MILLIS = 1000;

  /** Ranks begin in a span of this length after that, in steps of a look. */
  static final long SPREAD_MILLIS = 1600;

  private static final long STEP_MILLIS = 50;
  private static final long LONGEST_MILLIS = 30_000;

  private final int rank;
  private final Map<Integer, CallNotice> heard = new ConcurrentHashMap<>();

  /** The last collective for which another rank's call was found equal. */
  private long agreed;

  private long operation = -1;
  private long since;
  private long next;
  private CallNotice read;
  private CallConflict suspected;

  RemoteCalls(int rank) {
    this.rank = rank;
  }

  /** Takes note of what another rank calls. */
  void hear(CallNotice notice) {
    if (notice.rank() != rank) {
      heard.put(notice.rank(), notice);
    }
  }

  /**
   * The notice to send now, if one is due.
   *
   * @param waiting the operation that waits for another rank, by how many ended before; -1 if none
   * @param report the rank's own, read anew
   */
  Optional<CallNotice> due(long waiting, long nowMillis, Supplier<RankReport> report) {
    if (waiting < 0 || waiting != operation) {
      operation = waiting;
      since = nowMillis;
      next = nowMillis + FIRST_MILLIS + rank * STEP_MILLIS % SPREAD_MILLIS;
      read = null;
      return Optional.empty();
    }
    if (nowMillis < next) {
      return Optional.empty();
    }
    CallNotice now = CallNotice.of(report.get()).orElse(null);
    if (now != null && now.collective() != agreed && !now.equals(read)) {
      read = now;
      return Optional.empty();
    }
    next = nowMillis + Math.min(nowMillis - since, LONGEST_MILLIS);
    return Optional.ofNullable(now).filter(notice -> notice.collective() != agreed);
  }

  /**
   * The conflict of this rank's calls with one that was heard of, if that is sure.
   *
   * @param report the rank's own, read anew
   */
  Optional<CallConflict> look(Supplier<RankReport> report) {
    if (heard.isEmpty()) {
      return Optional.empty();
    }
    RankReport mine = report.get();
    CallConflict found = null;
    for (CallNotice notice : heard.values()) {
      Operation call = mine.collective(notice.collective());
      if (call == null) {
        if (isPast(mine, notice)) {
          heard.remove(notice.rank(), notice);
        }
      } else if (call.text().equals(notice.text())) {
        agreed = Math.max(agreed, notice.collective());
        heard.remove(notice.rank(), notice);
      } else if (found == null) {
        found = CallConflict.between(mine, call, notice);
      }
    }
    Optional<CallConflict> sure = Optional.ofNullable(found).filter(same -> same.equals(suspected));
    suspected = found;
    return sure;
  }

  /** True if a call is older than all that the recorder still has. */
  private static boolean isPast(RankReport mine, CallNotice notice) {
    return !mine.operations().isEmpty()
        && mine.operations().get(0).collective() > notice.collective();
  }
}
