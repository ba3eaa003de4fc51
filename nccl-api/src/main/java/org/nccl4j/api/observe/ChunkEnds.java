package org.nccl4j.api.observe;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.LongConsumer;
import jdk.jfr.FlightRecorder;
import org.nccl4j.device.support.Patience;

/**
 * Calls listeners at the end of each chunk of Java Flight Recorder, and so before a recording is
 * dumped or ends, which waits for them. Any thread may call any method.
 */
final class ChunkEnds {
  /** The ends for all communicators of this process. */
  static final ChunkEnds OF_PROCESS = new ChunkEnds(Duration.ofSeconds(1));

  private final Duration patience;
  private final List<LongConsumer> listeners = new CopyOnWriteArrayList<>();
  private final Runnable hook = this::call;

  /**
   * No listeners.
   *
   * @param patience for all listeners of one end together
   */
  ChunkEnds(Duration patience) {
    this.patience = patience;
  }

  /**
   * Adds a listener.
   *
   * @param called gets the time of {@link System#nanoTime} at which it is to wait no longer
   */
  synchronized void add(LongConsumer called) {
    if (listeners.isEmpty()) {
      FlightRecorder.addPeriodicEvent(Events.ChunkEnd.class, hook);
    }
    listeners.add(called);
  }

  /** Calls it no more; does nothing if it was not added. */
  synchronized void remove(LongConsumer called) {
    if (listeners.remove(called) && listeners.isEmpty()) {
      FlightRecorder.removePeriodicEvent(hook);
    }
  }

  private void call() {
    long end = Patience.end(patience);
    listeners.forEach(each -> each.accept(end));
  }
}
