package org.nccl4j.transport.net.socket;

import java.time.Duration;
import java.util.concurrent.locks.LockSupport;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.Patience;
import org.nccl4j.device.TimeoutException;

/** Serves some lanes of a connection: the helper thread of NCCL_SOCKET_NTHREADS. */
final class DataSocketThread implements Runnable {
  private static final int BUSY_ROUNDS = 200;

  /**
   * Longest time of one round. A round never blocks, so it ends soon unless the process is stopped.
   */
  private static final Duration LONGEST_ROUND = Duration.ofSeconds(5);

  private static final long SHORTEST_SLEEP_NANOS = 10_000;
  private static final long LONGEST_SLEEP_NANOS = 500_000;

  private final DataSocket[] lanes;
  private final int first;
  private final int stride;
  private final Thread thread;
  private volatile boolean stopped;

  /**
   * A running thread.
   *
   * @param lanes all of the connection; socket 0 is no lane, so lane i is socket i + 1
   * @param first it serves every stride-th from here on
   */
  DataSocketThread(DataSocket[] lanes, int first, int stride, String name) {
    this.lanes = lanes;
    this.first = first;
    this.stride = stride;
    this.thread = new Thread(this, "nccl4j-socket-" + name + "-" + first);
    thread.setDaemon(true);
    thread.start();
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
      for (int lane = first; lane < lanes.length; lane += stride) {
        bytes += lanes[lane].progress(lane + 1);
        pending |= !lanes[lane].isIdle();
      }
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
      throw new TimeoutException(
          ErrorId.STILL_RUNNING,
          "%s has not ended within %s".formatted(thread.getName(), Patience.text(LONGEST_ROUND)),
          "report this with the output of jstack");
    }
  }
}
