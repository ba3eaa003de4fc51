package org.nccl4j.transport.net.ib.device;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.support.DaemonThread;
import org.nccl4j.device.support.Patience;
import org.nccl4j.transport.net.ib.verbs.DescriptorWait;

/**
 * The thread that takes a device's events while those who look at them otherwise rest, and wakes
 * these. It waits in a system call.
 */
final class EventThread implements Runnable {
  private static final System.Logger LOG = DebugLog.of("NET");

  /** Time between two tries where an event that is there cannot be taken. */
  private static final long RETRY_NANOS = 100_000_000;

  private static final Duration LONGEST_END = Duration.ofSeconds(30);

  private final AsyncEvents events;
  private final DescriptorWait wait;
  private final List<Runnable> woken = new CopyOnWriteArrayList<>();
  private final Thread thread;
  private volatile boolean ended;

  /** Begins to wait. */
  EventThread(AsyncEvents events, String device, DescriptorWait wait) {
    this.events = events;
    this.wait = wait;
    thread = DaemonThread.of(this, "nccl4j-ib-events-" + device);
    thread.start();
  }

  /** Calls a function after each event from now on. */
  void wake(Runnable whom) {
    woken.add(whom);
  }

  /** Ends the calls of a function. */
  void leave(Runnable whom) {
    woken.remove(whom);
  }

  @Override
  public void run() {
    while (!ended) {
      boolean came = wait.await();
      if (ended) {
        return;
      }
      boolean taken = false;
      try {
        taken = came && events.read();
      } catch (NcclException e) {
        LOG.log(
            Level.DEBUG, "an event of an InfiniBand device cannot be taken: {0}", e.getMessage());
      }
      woken.forEach(Runnable::run);
      if (!taken) {
        Patience.parkOwn(this, RETRY_NANOS);
      }
    }
  }

  /** Ends it, before its device is closed. */
  void close() {
    ended = true;
    wait.end();
    if (Patience.join(thread, LONGEST_END)) {
      wait.close();
    }
  }
}
