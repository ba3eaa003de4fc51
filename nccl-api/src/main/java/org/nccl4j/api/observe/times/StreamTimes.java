package org.nccl4j.api.observe.times;

import java.time.Duration;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.support.Patience;

/**
 * Finds out when streams of one device reach a point, for one listener. On the host device a host
 * function of the stream takes the time. A GPU would stand still until such a function has run, so
 * there an event is recorded, and the device's thread ({@link DeviceTimes}) asks for its time
 * later, by {@link System#nanoTime} to some microseconds. One thread at a time adds points, any may
 * settle and close.
 */
public final class StreamTimes implements AutoCloseable {
  /** For points that streams have not reached at the end. */
  private static final long END_NANOS = TimeUnit.SECONDS.toNanos(5);

  private static final Duration SETTLED = Duration.ofSeconds(1);

  /**
   * A point of a stream.
   *
   * @param event recorded there
   */
  private record Point(DeviceEvent event, LongConsumer reached) {}

  /** Taken out by the device's thread, and by others once it has {@link #left}. */
  private final Queue<Point> points = new ConcurrentLinkedQueue<>();

  /** Null before the first point on a GPU. */
  private volatile DeviceTimes times;

  /** Written before {@link #closed}. */
  private long closedNanos;

  private volatile boolean closed;

  /** True once the device's thread takes no more points. */
  private volatile boolean left;

  /** Nothing is added yet. */
  public StreamTimes() {}

  /**
   * Adds the point after all that was launched into a stream, which is not being captured. On a GPU
   * that has failed nothing is told.
   *
   * @param reached gets the time by {@link System#nanoTime} soon after, on a GPU some milliseconds;
   *     points in the order in which they were added on a GPU, on the host device those of a stream
   */
  public void add(DeviceStream into, LongConsumer reached) {
    Device device = into.device();
    if (device.kind() == Device.Kind.HOST) {
      into.launchHostFunction(() -> reached.accept(System.nanoTime()));
      return;
    }
    if (closed || left) {
      return;
    }
    DeviceTimes taker = times;
    if (taker == null) {
      taker = DeviceTimes.join(device, this);
      times = taker;
    }
    DeviceEvent event = taker.event();
    boolean added = false;
    try {
      into.record(event);
      added = points.add(new Point(event, reached));
    } finally {
      if (!added) {
        event.close();
      }
    }
    if (left) {
      drop(); // the thread has ended meanwhile, and may not have seen the point
    } else {
      taker.wakeUp();
    }
  }

  /**
   * Waits until the points have been told that streams have reached by now, a second at most.
   * Others may be left.
   */
  public void tellReached() {
    DeviceTimes taker = times;
    if (taker != null && !taker.isOwn()) {
      long whole = taker.looks() + 2; // one may be under way
      Patience.until(() -> hasLooked(taker, whole), SETTLED);
    }
  }

  private boolean hasLooked(DeviceTimes taker, long looks) {
    taker.look();
    return left || taker.looks() >= looks;
  }

  /** Waits until all points have been told, a second at most: streams are about to reach them. */
  public void settle() {
    DeviceTimes taker = times;
    if (taker != null && !taker.isOwn()) {
      Patience.until(() -> isTold(taker), SETTLED);
    }
  }

  private boolean isTold(DeviceTimes taker) {
    taker.look();
    return left || points.isEmpty();
  }

  /** Ends it; points that are not reached within five seconds are dropped. Does not wait. */
  @Override
  public void close() {
    closedNanos = System.nanoTime();
    closed = true;
    DeviceTimes taker = times;
    if (taker != null) {
      taker.look();
    }
  }

  boolean isEmpty() {
    return points.isEmpty();
  }

  /** True if it was closed, and no point is to be waited for. */
  boolean isOver() {
    return closed && (points.isEmpty() || System.nanoTime() - closedNanos > END_NANOS);
  }

  /** Tells the points that were reached, in their order. */
  void take(DeviceTimes taker) {
    for (Point first = points.peek();
        first != null && first.event.isComplete();
        first = points.peek()) {
      first.reached.accept(taker.nanos(first.event));
      points.remove(); // not before it is told: see settle
      taker.free(first.event);
    }
  }

  /** Called by the device's thread, which takes no more points. */
  void leave() {
    left = true;
    drop();
  }

  private void drop() {
    try {
      for (Point point = points.poll(); point != null; point = points.poll()) {
        point.event.close();
      }
    } catch (NcclException e) {
      // A GPU that has failed frees them with the process.
    }
  }
}
