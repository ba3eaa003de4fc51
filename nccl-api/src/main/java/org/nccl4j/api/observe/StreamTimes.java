package org.nccl4j.api.observe;

import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.support.DaemonThread;
import org.nccl4j.device.support.Patience;

/**
 * Finds out when streams of one device reach a point. On the host device a host function of the
 * stream takes the time. A GPU would stand still until such a function has run, so there an event
 * is recorded, and a thread asks for its time later, by {@link System#nanoTime} to some
 * microseconds. One thread adds points, another may close.
 */
final class StreamTimes implements AutoCloseable {
  private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(1);
  private static final long IDLE_NANOS = TimeUnit.MILLISECONDS.toNanos(5);

  /** After so long the clocks of processor and GPU are compared again. */
  private static final long COMPARED_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  /** After so long they have drifted apart by more than a comparison that took long is wrong. */
  private static final long DRIFT_NANOS = TimeUnit.SECONDS.toNanos(10);

  /** For points that streams have not reached at the end. */
  private static final long END_NANOS = TimeUnit.SECONDS.toNanos(5);

  private static final int COMPARISONS = 3;

  /** Of a comparison that is taken at once: the GPU records an idle stream's event in less. */
  private static final long SHORT_NANOS = TimeUnit.MICROSECONDS.toNanos(200);

  /**
   * Of any: another stream's kernels may come first, such as with CUDA_DEVICE_MAX_CONNECTIONS=1.
   */
  private static final long LONG_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  private record Point(DeviceEvent event, LongConsumer reached) {}

  private final Queue<Point> points = new ConcurrentLinkedQueue<>();

  /** Events of points that were reached. */
  private final Queue<DeviceEvent> free = new ConcurrentLinkedQueue<>();

  private Thread thread;

  /** Written before {@link #closed}. */
  private long closedNanos;

  private volatile boolean closed;

  // Of the thread alone.

  private final List<DeviceEvent> comparisons = new ArrayList<>();
  private DeviceStream stream;

  /** An event whose time by both clocks is known; null before the first. */
  private DeviceEvent compared;

  private long comparedNanos;
  private long lookedNanos;

  /**
   * Adds the point after all that was launched into a stream, which is not being captured. On a GPU
   * that has failed nothing is told.
   *
   * @param reached gets the time by {@link System#nanoTime} soon after; points of a stream in their
   *     order
   */
  void add(DeviceStream into, LongConsumer reached) {
    Device device = into.device();
    if (device.kind() == Device.Kind.HOST) {
      into.launchHostFunction(() -> reached.accept(System.nanoTime()));
      return;
    }
    if (closed) {
      return;
    }
    if (thread == null) {
      thread = DaemonThread.of(() -> run(device), "nccl4j-times");
      thread.start();
    }
    DeviceEvent event = free.poll();
    if (event == null) {
      event = device.createEvent();
    }
    into.record(event);
    points.add(new Point(event, reached));
  }

  /** Points that are not reached within five seconds are dropped. */
  @Override
  public void close() {
    closedNanos = System.nanoTime();
    closed = true;
  }

  private void run(Device device) {
    try {
      stream = device.createStream();
      for (int n = 0; n <= COMPARISONS; n++) { // one more, which is kept
        comparisons.add(device.createEvent());
      }
      while (!closed || !points.isEmpty() && System.nanoTime() - closedNanos < END_NANOS) {
        if (compared == null || System.nanoTime() - lookedNanos > COMPARED_NANOS) {
          compare();
        }
        boolean isIdle = points.isEmpty();
        while (compared != null && takeFirst()) {
          // The next may be reached too.
        }
        Patience.parkOwn(this, isIdle ? IDLE_NANOS : LOOK_NANOS);
      }
    } catch (NcclException e) {
      // The GPU has failed, as others report, or has no memory: no more times are told.
    } finally {
      closed = true;
      free();
    }
  }

  /** Tells the time of the first point, if it is reached; whether it is. */
  private boolean takeFirst() {
    Point first = points.peek();
    if (first == null || !first.event.isComplete()) {
      return false;
    }
    points.remove();
    first.reached.accept(comparedNanos + (long) (1000 * first.event.microsecondsSince(compared)));
    free.add(first.event);
    return true;
  }

  /** Records events at known times, and takes that whose time is known best. */
  private void compare() {
    DeviceEvent best = null;
    long bestNanos = 0;
    long shortest = LONG_NANOS;
    long took = 0;
    for (DeviceEvent event : comparisons) {
      if (event == compared || took >= SHORT_NANOS) {
        continue;
      }
      long before = System.nanoTime();
      stream.record(event);
      took = await(event, before);
      if (took < shortest) {
        shortest = took;
        best = event;
        bestNanos = before + took / 2;
      }
    }
    lookedNanos = System.nanoTime();
    boolean isOld = compared == null || lookedNanos - comparedNanos > DRIFT_NANOS;
    if (best != null && (isOld || shortest < SHORT_NANOS)) {
      compared = best;
      comparedNanos = bestNanos;
    }
  }

  /** Waits for an event, at most as long as counts; returns the nanoseconds since a time. */
  private long await(DeviceEvent event, long before) {
    long took = 0;
    while (!event.isComplete() && took < LONG_NANOS) {
      if (took < SHORT_NANOS) {
        Thread.onSpinWait();
      } else {
        Patience.parkOwn(this, SHORT_NANOS);
      }
      took = System.nanoTime() - before;
    }
    return System.nanoTime() - before;
  }

  /** Events that a launching thread has taken out meanwhile go with the process. */
  private void free() {
    try {
      for (Point point = points.poll(); point != null; point = points.poll()) {
        point.event.close();
      }
      for (DeviceEvent event = free.poll(); event != null; event = free.poll()) {
        event.close();
      }
      comparisons.forEach(DeviceEvent::close);
      if (stream != null) {
        stream.close();
      }
    } catch (NcclException e) {
      // A GPU that has failed frees them with the process.
    }
  }
}
