package org.nccl4j.device;

import java.lang.System.Logger.Level;
import java.lang.ref.WeakReference;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;

/**
 * Logs memory and streams that were closed while a call used them and are still in use after a
 * minute; each once. Any thread.
 */
final class OverdueLeases {
  /** The time after which a lease is logged. */
  static final long NANOS = 60_000_000_000L;

  /** The most leases that are watched; older ones are dropped. */
  static final int MOST = 256;

  private static final System.Logger LOG = DebugLog.of("ALLOC");

  private record Closed(WeakReference<Leases> leases, String what, Instant since, long nanos) {
    /** True if the memory is collected or freed. */
    boolean isOver() {
      Leases of = leases.get();
      return of == null || of.isOver();
    }
  }

  private static final OverdueLeases OF_PROCESS = new OverdueLeases();

  /** The oldest first. Guarded by this object. */
  private final Deque<Closed> closed = new ArrayDeque<>();

  private volatile boolean some;

  OverdueLeases() {}

  static OverdueLeases ofProcess() {
    return OF_PROCESS;
  }

  /** Watches the leases of an object that was closed while it is used. */
  static void closed(Leases leases, Object what) {
    OF_PROCESS.add(leases, what, System.nanoTime());
  }

  /** Logs overdue leases. Called repeatedly while there are communicators. */
  static void look() {
    if (OF_PROCESS.some) {
      OF_PROCESS.overdue(System.nanoTime()).forEach(line -> LOG.log(Level.WARNING, line));
    }
  }

  synchronized void add(Leases leases, Object what, long nowNanos) {
    if (closed.size() == MOST) {
      closed.removeFirst();
    }
    Instant now = Instant.now().truncatedTo(ChronoUnit.SECONDS);
    closed.addLast(new Closed(new WeakReference<>(leases), what.toString(), now, nowNanos));
    some = true;
  }

  /** Returns a line for each overdue lease, and stops watching it. */
  synchronized List<String> overdue(long nowNanos) {
    List<String> lines = new ArrayList<>();
    for (Iterator<Closed> each = closed.iterator(); each.hasNext(); ) {
      Closed one = each.next();
      if (one.isOver()) {
        each.remove();
      } else if (nowNanos - one.nanos() >= NANOS) {
        each.remove();
        lines.add(
            "%s: closed at %s, and not freed yet, since a call that uses it was not launched within %d s; end the group that the call is in (Group.end)"
                .formatted(one.what(), one.since(), NANOS / 1_000_000_000));
      }
    }
    some = !closed.isEmpty();
    return lines;
  }
}
