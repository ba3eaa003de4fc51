package org.nccl4j.device.host.stream;

import java.util.concurrent.locks.LockSupport;
import org.nccl4j.device.support.DaemonThread;
import org.nccl4j.device.support.Patience;

/**
 * The thread of a stream that nobody lends one. Started when first needed; sleeps when the queue is
 * empty; ends when told to, or when it has had nothing to do for a minute.
 */
final class StreamThread {
  private static final long IDLE_NANOS = 60_000_000_000L;

  /** Nanoseconds for which the stream's thread leaves the queue to a lent thread. */
  private static final long LENT_NANOS = 1_000_000;

  private final LaunchQueue queue;
  private Thread thread;
  private boolean stopped;

  StreamThread(LaunchQueue queue) {
    this.queue = queue;
  }

  synchronized void wake() {
    if (thread != null) {
      LockSupport.unpark(thread);
    } else if (!stopped) {
      Thread made = DaemonThread.of(this::runQueue, "nccl4j-stream");
      made.start(); // may fail for lack of memory
      thread = made;
    }
  }

  synchronized void stop() {
    stopped = true;
    if (thread != null) {
      LockSupport.unpark(thread);
    }
  }

  private synchronized boolean mayEnd(boolean idleForLong) {
    if (queue.ended() == queue.added() && (stopped || idleForLong)) {
      thread = null;
      return true;
    }
    return false;
  }

  private void runQueue() {
    try {
      runUntilIdle();
    } finally {
      gone();
    }
  }

  /** After an error, for lack of memory perhaps, another one is made when it is needed. */
  private synchronized void gone() {
    if (thread == Thread.currentThread()) {
      thread = null;
    }
  }

  private void runUntilIdle() {
    long idleSince = System.nanoTime();
    while (!mayEnd(System.nanoTime() - idleSince > IDLE_NANOS)) {
      if (queue.ended() == queue.added()) {
        Patience.parkOwn(this, IDLE_NANOS);
      } else if (queue.runUntilLent(queue.added())) {
        idleSince = System.nanoTime();
      } else {
        Patience.parkOwn(this, LENT_NANOS);
      }
    }
  }
}
