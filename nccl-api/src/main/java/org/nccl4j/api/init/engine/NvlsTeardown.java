package org.nccl4j.api.init.engine;

import java.lang.System.Logger;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.multicast.MulticastProvider.Exchange;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.wire.TeardownBarrier;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.device.support.DaemonThread;
import org.nccl4j.device.support.KeptMemory;
import org.nccl4j.device.support.Patience;

/**
 * Frees the memory of NVLS, in which ranks work on each other's: only after all have come to the
 * end, since one may still read what another is done with. Those of one process may close one after
 * the other on one thread, so only the last of them waits, and frees for all. Any thread.
 */
final class NvlsTeardown {
  private static final Logger LOG = DebugLog.of("NVLS");
  private static final AtomicLong NUMBERS = new AtomicLong();

  /** Teardowns by number, while ranks of this process are missing. Guarded by itself. */
  private static final Map<Long, NvlsTeardown> OPEN = new HashMap<>();

  /** Ranks of this process that have yet to come. Guarded by {@link #OPEN}. */
  private int coming;

  /** Ranks of this process that have yet to leave. Guarded by this. */
  private int staying;

  /** Ranks that have left and hold their memory. Guarded by this. */
  private final List<Departure> waiting = new ArrayList<>();

  /**
   * A rank that leaves.
   *
   * @param failed whether it is not to wait, and nobody for it
   */
  private record Departure(Bootstrap bootstrap, boolean failed, long bytes, Runnable free) {
    /** Waits for all ranks, of all processes; returns whether none uses the memory any more. */
    boolean meets() {
      try {
        bootstrap.barrier();
        return true;
      } catch (TimeoutException e) {
        return false;
      } catch (NcclException e) {
        LOG.log(Logger.Level.DEBUG, "rank {0} leaves alone: {1}", bootstrap.rank(), e.problem());
        return true;
      }
    }
  }

  private NvlsTeardown(int ranks) {
    this.coming = ranks;
    this.staying = ranks;
  }

  /** Returns the teardown of the ranks of this process; every rank calls this once. */
  static NvlsTeardown of(List<PeerInfo> peers, int rank, Exchange exchange) {
    byte[] mine = ByteBuffer.allocate(Long.BYTES).putLong(NUMBERS.incrementAndGet()).array();
    List<byte[]> numbers = exchange.allGather(mine);
    String process = peers.get(rank).processId();
    List<PeerInfo> here = peers.stream().filter(p -> p.processId().equals(process)).toList();
    long number = ByteBuffer.wrap(numbers.get(here.get(0).rank())).getLong();
    synchronized (OPEN) {
      NvlsTeardown teardown = OPEN.computeIfAbsent(number, none -> new NvlsTeardown(here.size()));
      teardown.coming--;
      if (teardown.coming == 0) {
        OPEN.remove(number);
      }
      return teardown;
    }
  }

  /**
   * Leaves. The last rank of this process waits for those of all other processes, and then frees
   * what all ranks of this process have left: on a thread of its own if that takes longer than its
   * patience. A rank that failed does not wait, and nobody of another process for it.
   *
   * @param bytes that it holds
   */
  void leave(Bootstrap bootstrap, Duration patience, boolean failed, long bytes, Runnable free) {
    List<Departure> together;
    synchronized (this) {
      staying--;
      waiting.add(new Departure(bootstrap, failed, bytes, free));
      together = staying == 0 ? List.copyOf(waiting) : List.of();
    }
    AtomicBoolean late = new AtomicBoolean();
    List<Thread> meeting =
        together.stream()
            .filter(each -> !each.failed)
            .map(each -> thread(each.bootstrap.rank(), () -> meet(each, late)))
            .toList();
    TeardownBarrier.pass(
        new TeardownBarrier.Shared() {
          @Override
          public TeardownBarrier.Look look() {
            return meeting.stream().noneMatch(Thread::isAlive)
                ? TeardownBarrier.Look.OVER
                : TeardownBarrier.Look.IDLE;
          }

          @Override
          public void late() {
            LOG.log(
                Logger.Level.WARNING,
                "{0} bytes of NVLS''s memory stay until all ranks have closed their communicators,"
                    + " which some have not after {1}; close them on all ranks, or give close more"
                    + " time",
                bytes(together),
                Patience.text(patience));
          }

          @Override
          public void free(boolean over) {
            NvlsTeardown.free(together, !over || late.get());
          }
        },
        "nccl4j-close-" + bootstrap.rank(),
        patience,
        TeardownBarrier.FOREVER);
  }

  private static Thread thread(int rank, Runnable task) {
    Thread thread = DaemonThread.of(task, "nccl4j-close-" + rank);
    thread.start();
    return thread;
  }

  private static void meet(Departure departure, AtomicBoolean late) {
    if (!departure.meets()) {
      late.set(true);
    }
  }

  private static void free(List<Departure> together, boolean inUse) {
    if (inUse) {
      KeptMemory.keep(
          together, "NVLS", bytes(together), "some rank has not closed its communicator");
      return;
    }
    CloseAll.each(together, departure -> departure.free.run());
  }

  private static long bytes(List<Departure> departures) {
    return departures.stream().mapToLong(Departure::bytes).sum();
  }
}
