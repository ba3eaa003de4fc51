package org.nccl4j.api.init;

import java.lang.System.Logger;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.Releases;

/**
 * How ranks that work on each other's memory free it: only after all have come to the end, since
 * one may still read what another is done with. Those of one process may close one after the other
 * on one thread, so only the last of them waits, and frees for all. Any thread.
 */
final class Farewell {
  private static final Logger LOG = System.getLogger("org.nccl4j.NVLS");
  private static final AtomicLong NUMBERS = new AtomicLong();

  /** By number, while not all ranks of this process have come. Guarded by itself. */
  private static final Map<Long, Farewell> OPEN = new HashMap<>();

  /** Ranks of this process that have yet to come. Guarded by {@link #OPEN}. */
  private int coming;

  /** Ranks of this process that have yet to leave. Guarded by this. */
  private int staying;

  /** Who has left and holds its memory. Guarded by this. */
  private final List<Departure> waiting = new ArrayList<>();

  /** A rank that leaves. */
  private record Departure(Bootstrap bootstrap, Runnable free) {
    /** Waits for all ranks, of all processes; returns whether they came. */
    boolean meets() {
      try {
        bootstrap.barrier();
        return true;
      } catch (NcclException e) {
        LOG.log(Logger.Level.DEBUG, "rank {0} leaves alone: {1}", bootstrap.rank(), e.problem());
        return false;
      }
    }
  }

  private Farewell(int ranks) {
    this.coming = ranks;
    this.staying = ranks;
  }

  /** That of the ranks of this process; every rank calls it once. */
  static Farewell of(List<PeerInfo> peers, Bootstrap bootstrap) {
    byte[] mine = ByteBuffer.allocate(Long.BYTES).putLong(NUMBERS.incrementAndGet()).array();
    List<byte[]> numbers = bootstrap.allGather(mine);
    String process = peers.get(bootstrap.rank()).processId();
    List<PeerInfo> here = peers.stream().filter(p -> p.processId().equals(process)).toList();
    long number = ByteBuffer.wrap(numbers.get(here.get(0).rank())).getLong();
    synchronized (OPEN) {
      Farewell farewell = OPEN.computeIfAbsent(number, none -> new Farewell(here.size()));
      farewell.coming--;
      if (farewell.coming == 0) {
        OPEN.remove(number);
      }
      return farewell;
    }
  }

  /**
   * Leaves. The last rank of this process waits for those of all other processes, no longer than
   * its patience, and then frees what all ranks of this process have left. A rank that failed does
   * not wait, and nobody for it.
   */
  void leave(Bootstrap bootstrap, Duration patience, boolean failed, Runnable free) {
    List<Departure> together;
    synchronized (this) {
      staying--;
      if (!failed) {
        waiting.add(new Departure(bootstrap, free));
      }
      together = staying == 0 ? List.copyOf(waiting) : List.of();
    }
    Releases all = new Releases();
    if (failed) {
      all.take(free);
    }
    meet(together, patience);
    together.forEach(departure -> all.take(departure.free));
    all.end();
  }

  private static void meet(List<Departure> together, Duration patience) {
    AtomicBoolean alone = new AtomicBoolean();
    List<Thread> threads = new ArrayList<>();
    for (Departure departure : together) {
      Thread thread =
          new Thread(
              () -> {
                if (!departure.meets()) {
                  alone.set(true);
                }
              },
              "nccl4j-close-" + departure.bootstrap.rank());
      thread.setDaemon(true);
      thread.start();
      threads.add(thread);
    }
    long end = System.nanoTime() + patience.toNanos();
    for (Thread thread : threads) {
      await(thread, end);
      if (thread.isAlive() && !alone.getAndSet(true)) {
        LOG.log(
            Logger.Level.WARNING,
            "NVLS''s memory is freed although some rank has not closed its communicator after {0};"
                + " close it on all ranks, or give close more time",
            patience);
      }
    }
  }

  private static void await(Thread thread, long end) {
    try {
      TimeUnit.NANOSECONDS.timedJoin(thread, Math.max(1, end - System.nanoTime()));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
