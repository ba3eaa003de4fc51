package org.nccl4j.api.bootstrap;

import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.nccl4j.api.bootstrap.connection.Deadline;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.support.DaemonThread;

/**
 * The monitor that the threads of one rank wait on: its lock guards the state of the rank's links,
 * and its first failure wakes all waiting threads. Any thread may call it.
 */
final class RankMonitor {
  private final int rank;
  private NcclException failure;
  private boolean delivered;
  private boolean closed;
  private Consumer<NcclException> listener;

  /** Monitors that fail with this one. */
  private final Set<RankMonitor> followers = Collections.newSetFromMap(new WeakHashMap<>());

  RankMonitor(int rank) {
    this.rank = rank;
  }

  /** Changes guarded state, and has those who wait look at it. */
  synchronized void change(Runnable change) {
    change.run();
    notifyAll();
  }

  /** Reads guarded state. */
  synchronized <T> T read(Supplier<T> what) {
    return what.get();
  }

  /**
   * Waits until the supplier, called with the lock held, gives something but null. A failure comes
   * before what the supplier says, since its cause may be why the others left.
   *
   * @param late what to throw when the deadline has passed
   */
  synchronized <T> T await(Supplier<T> ready, Deadline deadline, Supplier<NcclException> late) {
    T result = awaitOrNull(ready, deadline);
    if (result == null) {
      throw late.get();
    }
    return result;
  }

  /** Waits as {@link #await} does, but returns null when the deadline has passed. */
  synchronized <T> T awaitOrNull(Supplier<T> ready, Deadline deadline) {
    while (true) {
      if (failure != null) {
        throw failure.again();
      }
      T result = ready.get();
      if (result != null) {
        return result;
      }
      if (closed) {
        throw new InvalidUsageException(
            ErrorId.CLOSED,
            "rank " + rank + "'s bootstrap is closed",
            "do not use a communicator after closing it");
      }
      long left = deadline.leftNanos();
      if (left <= 0) {
        return null;
      }
      waitNanos(left);
    }
  }

  /** Waits a while; a failure or the end comes before. */
  synchronized void pause(Duration length) {
    Deadline end = Deadline.after(length);
    while (isUsable() && !end.passed()) {
      waitNanos(end.leftNanos());
    }
  }

  private void waitNanos(long nanos) {
    try {
      wait(nanos / 1_000_000 + 1);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new InvalidUsageException(
          ErrorId.INTERRUPTED,
          "rank " + rank + "'s thread was interrupted while it waited for other ranks",
          "do not interrupt a thread that waits for other ranks; use abort to end it",
          e);
    }
  }

  /** Takes note of a failure of another rank; false if it is not the first. */
  boolean failedOutside(NcclException cause) {
    boolean first = failedHere(cause);
    if (first) {
      deliver(false);
    }
    return first;
  }

  /** Takes note of a failure of this rank; false if it is not the first. */
  boolean failedHere(NcclException cause) {
    synchronized (this) {
      if (failure != null || closed) {
        return false;
      }
      failure = cause;
      notifyAll();
    }
    failFollowers();
    return true;
  }

  /** Has another monitor fail with this one, at once if this one has failed already. */
  void lead(RankMonitor follower) {
    synchronized (this) {
      followers.add(follower);
    }
    failFollowers();
  }

  private void failFollowers() {
    NcclException cause;
    List<RankMonitor> all;
    synchronized (this) {
      cause = failure;
      all = List.copyOf(followers);
    }
    if (cause != null) {
      all.forEach(follower -> follower.failedOutside(cause));
    }
  }

  /** Gives the listener the failure that there was, on the calling thread. */
  void deliverHere() {
    deliver(true);
  }

  /** The first failure; null if there was none. */
  synchronized NcclException failure() {
    return failure;
  }

  /** Neither failed nor closed. */
  synchronized boolean isUsable() {
    return failure == null && !closed;
  }

  void onFailure(Consumer<NcclException> newListener) {
    synchronized (this) {
      listener = newListener;
    }
    deliver(true);
  }

  /** False if it was closed before. */
  synchronized boolean close() {
    boolean first = !closed;
    closed = true;
    notifyAll();
    return first;
  }

  synchronized boolean isClosed() {
    return closed;
  }

  /** A listener may block, so it never runs on the loop's thread. */
  private void deliver(boolean here) {
    NcclException told;
    Consumer<NcclException> to;
    synchronized (this) {
      if (failure == null || listener == null || delivered || closed) {
        return;
      }
      delivered = true;
      told = failure;
      to = listener;
    }
    if (here) {
      to.accept(told);
      return;
    }
    DaemonThread.of(() -> to.accept(told), "nccl4j-failure-of-rank-" + rank).start();
  }
}
