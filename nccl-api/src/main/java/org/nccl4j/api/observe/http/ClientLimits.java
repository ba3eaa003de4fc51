package org.nccl4j.api.observe.http;

import java.time.Duration;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.nccl4j.device.support.DaemonThread;
import org.nccl4j.device.support.Patience;

/**
 * Limits the time that threads of a server wait for their clients: while they read a request, and
 * while they send the answer. A thread that waits longer is interrupted, which closes the client's
 * connection. Any thread.
 */
final class ClientLimits {
  /** The exchange that a thread is in. */
  private static final ThreadLocal<Limit> CURRENT = new ThreadLocal<>();

  private final Duration patience;
  private final ScheduledThreadPoolExecutor clock;

  /**
   * No thread has a limit yet.
   *
   * @param patience with a client, for the request and for the answer
   * @param name of the thread that interrupts others
   */
  ClientLimits(Duration patience, String name) {
    this.patience = patience;
    this.clock = new ScheduledThreadPoolExecutor(1, task -> DaemonThread.of(task, name));
    clock.setRemoveOnCancelPolicy(true);
    clock.setKeepAliveTime(1, TimeUnit.SECONDS);
    clock.allowCoreThreadTimeOut(true);
    clock.setRejectedExecutionHandler(new ThreadPoolExecutor.DiscardPolicy()); // after close
  }

  /** Runs an exchange with a client, with a limit from the begin. */
  void run(Runnable exchange) {
    CURRENT.set(new Limit(Thread.currentThread()));
    try {
      begin();
      exchange.run();
    } finally {
      end();
      CURRENT.remove();
    }
  }

  /** This thread waits for its client from now on. */
  static void begin() {
    CURRENT.get().begin();
  }

  /** This thread waits for its client no more. */
  static void end() {
    CURRENT.get().end();
  }

  /** No thread is interrupted any more. */
  void close() {
    clock.shutdownNow();
  }

  /** The limit of a thread, which begins and ends it; the clock's thread interrupts it. */
  private final class Limit {
    private final Thread thread;

    /** Grows when a wait begins and when it ends. */
    private long changes;

    private Future<?> interruption;

    Limit(Thread thread) {
      this.thread = thread;
    }

    synchronized void begin() {
      long wait = ++changes;
      interruption =
          clock.schedule(() -> interrupt(wait), Patience.nanos(patience), TimeUnit.NANOSECONDS);
    }

    private synchronized void interrupt(long wait) {
      if (wait == changes) {
        thread.interrupt();
      }
    }

    /** The wait is over: nothing that the thread does next is interrupted. */
    synchronized void end() {
      changes++;
      interruption.cancel(false);
      Thread.interrupted();
    }
  }
}
