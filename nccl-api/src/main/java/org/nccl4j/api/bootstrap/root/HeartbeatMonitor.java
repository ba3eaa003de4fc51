package org.nccl4j.api.bootstrap.root;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.nccl4j.api.bootstrap.connection.Connection;
import org.nccl4j.api.bootstrap.connection.EventLoop;
import org.nccl4j.device.support.Patience;

/**
 * Times of each rank's last heartbeat. If the root's process was itself stopped for a while, that
 * is not counted as the ranks' silence.
 *
 * <p>Owner thread: the loop's.
 */
final class HeartbeatMonitor {
  private static final Duration SHORTEST = Duration.ofMillis(100);

  /** Looks in the time that a silence may last; it is noticed a look before that has passed. */
  private static final int LOOKS = 20;

  private static final int MISSED = 18;

  /** After how many looks' time without a look this process was itself stopped. */
  private static final int STOPPED = 6;

  /** Hears of a silence. */
  interface Silent {
    /**
     * Called for a connection that has been silent for a length of time, with the length allowed.
     */
    void noticed(Connection connection, Duration length, Duration allowed);
  }

  private record Last(long nanos, Duration allowed) {}

  private final EventLoop loop;
  private final Silent silent;
  private final Map<Connection, Last> last = new HashMap<>();
  private EventLoop.Timer timer;

  /** Time between looks, for the least patient rank. */
  private Duration period;

  private long lookedNanos;

  HeartbeatMonitor(EventLoop loop, Silent silent) {
    this.loop = loop;
    this.silent = silent;
  }

  void heard(Connection connection, Duration allowed) {
    last.put(connection, new Last(System.nanoTime(), allowed));
    Duration share = allowed.dividedBy(LOOKS);
    Duration wanted = share.compareTo(SHORTEST) < 0 ? SHORTEST : share;
    if (period == null || wanted.compareTo(period) < 0) {
      if (timer != null) {
        timer.cancel();
      }
      period = wanted;
      lookedNanos = System.nanoTime();
      timer = loop.after(period, this::look);
    }
  }

  void forget(Connection connection) {
    last.remove(connection);
  }

  private void look() {
    long now = System.nanoTime();
    if (now - lookedNanos > STOPPED * Patience.nanos(period)) {
      last.replaceAll((connection, was) -> new Last(now, was.allowed));
    }
    lookedNanos = now;
    for (Map.Entry<Connection, Last> each : Map.copyOf(last).entrySet()) {
      Last was = each.getValue();
      if (now - was.nanos > MISSED * (Patience.nanos(was.allowed) / LOOKS)) {
        last.remove(each.getKey());
        silent.noticed(each.getKey(), Duration.ofNanos(now - was.nanos), was.allowed);
      }
    }
    timer = loop.after(period, this::look);
  }

  void close() {
    last.clear();
    if (timer != null) {
      timer.cancel();
    }
  }
}
