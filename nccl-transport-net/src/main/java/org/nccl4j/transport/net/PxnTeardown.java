package org.nccl4j.transport.net;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.wire.TeardownBarrier;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.NcclException;

/**
 * Closes a rank that sends for others of its host: while one of them has not closed, it may still
 * fill slots, so what they fill is sent until they all have closed or have died; then everything is
 * freed. Each relay belongs from then on to the thread that looks.
 */
final class PxnTeardown implements TeardownBarrier.Shared {
  private static final System.Logger LOG = DebugLog.of("NET");
  private static final long LOOK_NANOS = Duration.ofMillis(20).toNanos();

  private final int rank;
  private final List<PxnConnector> relays;
  private final Runnable free;
  private long looked;

  /**
   * Creates the teardown of a rank.
   *
   * @param relays what it has for others; the rest of its connections are closed
   * @param free what is left to do at the end
   */
  PxnTeardown(int rank, List<PxnConnector> relays, Runnable free) {
    this.rank = rank;
    this.relays = new ArrayList<>(relays);
    this.free = free;
    this.looked = System.nanoTime() - LOOK_NANOS;
  }

  @Override
  public TeardownBarrier.Look look() {
    if (System.nanoTime() - looked >= LOOK_NANOS) {
      closeUnneeded();
      looked = System.nanoTime();
    }
    if (relays.isEmpty()) {
      return TeardownBarrier.Look.OVER;
    }
    int work = 0;
    for (PxnConnector relay : List.copyOf(relays)) {
      work += turn(relay);
    }
    return work == 0 ? TeardownBarrier.Look.IDLE : TeardownBarrier.Look.WORKED;
  }

  private int turn(PxnConnector relay) {
    try {
      return relay.proxy().map(ProxyHandler::doWork).orElse(0);
    } catch (NcclException e) {
      LOG.log(System.Logger.Level.DEBUG, "rank {0} closes {1}: {2}", rank, relay, e.problem());
      relays.remove(relay);
      relay.close();
      return 0;
    }
  }

  private void closeUnneeded() {
    for (PxnConnector relay : List.copyOf(relays)) {
      if (!relay.isNeeded()) {
        relays.remove(relay);
        relay.close();
      }
    }
  }

  @Override
  public void free(boolean over) {
    free.run();
  }
}
