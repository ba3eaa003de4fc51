package org.nccl4j.transport.net.socket.link;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.support.DaemonThread;
import org.nccl4j.device.support.Patience;

/**
 * Moves what is posted to lanes: a helper thread of one connection (NCCL_SOCKET_NTHREADS), or one
 * that all connections of a communicator share.
 */
final class DataSocketThread implements Runnable {
  private static final int BUSY_ROUNDS = 200;

  /**
   * Longest time of one round. A round never blocks, so it ends soon unless the process is stopped
   * or a busy machine runs its thread late.
   */
  private static final Duration LONGEST_ROUND = Duration.ofSeconds(30);

  private static final long SHORTEST_SLEEP_NANOS = 10_000;
  private static final long LONGEST_SLEEP_NANOS = 500_000;
  private static final long POLL_NANOS = 50_000;

  private final Thread thread;

  /** Replaced, never changed. */
  private volatile DataSocket[] lanes = {};

  /** Rounds that have ended. Written by the thread alone. */
  private volatile long rounds;

  private volatile boolean stopped;

  /** A running thread. */
  DataSocketThread(String name) {
    this.thread = DaemonThread.of(this, "nccl4j-socket-" + name);
    thread.start();
  }

  /** Serves one lane more. */
  synchronized void add(DataSocket lane) {
    DataSocket[] more = Arrays.copyOf(lanes, lanes.length + 1);
    more[lanes.length] = lane;
    lanes = more;
  }

  /**
   * Serves some lanes no more, and waits until it touches none of them.
   *
   * @throws TimeoutException if it still does
   */
  void remove(List<DataSocket> gone) {
    synchronized (this) {
      List<DataSocket> rest = new ArrayList<>(List.of(lanes));
      rest.removeAll(gone);
      lanes = rest.toArray(DataSocket[]::new);
    }
    // A round that is under way may still have the old array.
    long before = rounds;
    long begin = System.nanoTime();
    wake();
    while (rounds == before && thread.isAlive()) {
      if (System.nanoTime() - begin > Patience.nanos(LONGEST_ROUND)) {
        throw stillRunning();
      }
      Patience.sleep(POLL_NANOS);
    }
  }

  /** Something has been posted. */
  void wake() {
    LockSupport.unpark(thread);
  }

  @Override
  public void run() {
    int idle = 0;
    long sleep = SHORTEST_SLEEP_NANOS;
    while (!stopped) {
      int bytes = 0;
      boolean pending = false;
      for (DataSocket lane : lanes) {
        bytes += lane.progress();
        pending |= !lane.isIdle();
      }
      rounds = rounds + 1;
      if (!pending) {
        Patience.parkOwn(this);
        idle = 0;
      } else if (bytes > 0) {
        idle = 0;
        sleep = SHORTEST_SLEEP_NANOS;
      } else if (++idle < BUSY_ROUNDS) {
        Thread.yield();
      } else {
        Patience.parkOwn(this, sleep);
        sleep = Math.min(2 * sleep, LONGEST_SLEEP_NANOS);
      }
    }
  }

  /**
   * Stops it, and waits until it touches no memory any more.
   *
   * @throws TimeoutException if it still does
   */
  void close() {
    stopped = true;
    wake();
    if (!Patience.join(thread, LONGEST_ROUND)) {
      throw stillRunning();
    }
  }

  private TimeoutException stillRunning() {
    return new TimeoutException(
        ErrorId.STILL_RUNNING,
        "%s has not ended within %s".formatted(thread.getName(), Patience.text(LONGEST_ROUND)),
        "report this with the output of jstack");
  }
}
