package org.nccl4j.transport.net;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.Patience;

/**
 * How a rank closes that sends for others of its host: while one of them has not closed, it may
 * still fill slots. So a thread goes on sending what they fill, until they all have closed or have
 * died; then everything is freed. Each relay belongs to that thread alone from then on.
 */
final class RelayFarewell {
  private static final System.Logger LOG = DebugLog.of("NET");
  private static final long POLL_NANOS = 100_000;
  private static final long LOOK_NANOS = Duration.ofMillis(20).toNanos();

  private final int rank;
  private final List<RelayConnector> relays;
  private final Runnable free;

  /**
   * Of a rank.
   *
   * @param relays what it has for others; the rest of its connections are closed
   * @param free what is left to do at the end
   */
  RelayFarewell(int rank, List<RelayConnector> relays, Runnable free) {
    this.rank = rank;
    this.relays = new ArrayList<>(relays);
    this.free = free;
  }

  /**
   * Ends, on a thread of its own if others take longer.
   *
   * @param here how long the caller waits for that
   */
  void end(Duration here) {
    long end = Patience.end(here);
    if (closeUnneeded()) {
      free.run();
      return;
    }
    Thread thread = new Thread(this::run, "nccl4j-relay-" + rank);
    thread.setDaemon(true);
    thread.start();
    Patience.join(thread, Duration.ofNanos(end - System.nanoTime()));
  }

  private void run() {
    long looked = System.nanoTime();
    boolean over = false;
    while (!over) {
      int work = 0;
      for (RelayConnector relay : List.copyOf(relays)) {
        work += turn(relay);
      }
      if (System.nanoTime() - looked > LOOK_NANOS) {
        over = closeUnneeded();
        looked = System.nanoTime();
      }
      if (work == 0) {
        LockSupport.parkNanos(POLL_NANOS);
      }
    }
    free.run();
  }

  private int turn(RelayConnector relay) {
    try {
      return relay.proxy().map(ProxyHandler::doWork).orElse(0);
    } catch (NcclException e) {
      LOG.log(System.Logger.Level.DEBUG, "rank {0} closes {1}: {2}", rank, relay, e.problem());
      relays.remove(relay);
      relay.close();
      return 0;
    }
  }

  /** Whether none is needed any more. */
  private boolean closeUnneeded() {
    for (RelayConnector relay : List.copyOf(relays)) {
      if (!relay.isNeeded()) {
        relays.remove(relay);
        relay.close();
      }
    }
    return relays.isEmpty();
  }
}
