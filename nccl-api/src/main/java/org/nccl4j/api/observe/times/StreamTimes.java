package org.nccl4j.api.observe.times;

import java.time.Duration;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.LongConsumer;
import org.nccl4j.device.DebugLog;
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
 *
 * <p>A point whose time cannot be taken is dropped, and so is one whose listener throws; the first
 * is logged. Others are told.
 */
public final class StreamTimes implements AutoCloseable {
  /** For points that streams have not reached at the end. */
  private static final long END_NANOS = TimeUnit.SECONDS.toNanos(5);

  private static final System.Logger LOG = DebugLog.of("PROFILE");

  /**
   * A point of a stream.
   *
   * @param event recorded there
   */
  private record Point(DeviceEvent event, LongConsumer reached) {}

  /** Taken out by the device's thread, and by others once it has {@link #left}. */
  private final Queue<Point> points = new ConcurrentLinkedQueue<>();

  /** Points of the host device that are not told. */
  private final AtomicInteger ofHost = new AtomicInteger();

  private final AtomicBoolean warned = new AtomicBoolean();

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
   * that has failed nothing is told. Throws nothing: what was launched has been launched.
   *
   * @param reached gets the time by {@link System#nanoTime} soon after, on a GPU some milliseconds;
   *     points in the order in which they were added on a GPU, on the host device those of a stream
   */
  public void add(DeviceStream into, LongConsumer reached) {
    try {
      Device device = into.device();
      if (device.kind() == Device.Kind.HOST) {
        addOnHost(into, reached);
      } else if (!closed && !left) {
        addOnGpu(device, into, reached);
      }
    } catch (RuntimeException | Error e) {
      warn("its time cannot be taken", e);
    }
  }

  private void addOnHost(DeviceStream into, LongConsumer reached) {
    boolean added = false;
    ofHost.incrementAndGet();
    try {
      into.launchHostFunction(
          () -> {
            tell(reached, System.nanoTime());
            ofHost.decrementAndGet();
          });
      added = true;
    } finally {
      if (!added) {
        ofHost.decrementAndGet();
      }
    }
  }

  private void addOnGpu(Device device, DeviceStream into, LongConsumer reached) {
    DeviceTimes taker = times;
    if (taker == null) {
      taker = join(device);
    }
    DeviceEvent event = taker.event();
    boolean added = false;
    try {
      into.record(event);
      added = points.add(new Point(event, reached));
    } finally {
      if (!added) {
        free(event);
      }
    }
    if (left) {
      drop(); // the thread has ended meanwhile, and may not have seen the point
    } else {
      taker.wakeUp();
    }
  }

  private DeviceTimes join(Device device) {
    boolean joined = false;
    try {
      times = DeviceTimes.join(device, this);
      joined = true;
    } finally {
      left = left || !joined; // else each operation would try again
    }
    return times;
  }

  /**
   * Waits until points have been told.
   *
   * @param all those that are not reached yet, too; else those that streams have reached by now
   * @param end the time of {@link System#nanoTime} at which it waits no longer
   */
  public void settle(boolean all, long end) {
    DeviceTimes taker = times;
    if (taker != null && !taker.isOwn()) {
      long whole = taker.looks() + 2; // one may be under way
      await(() -> isTold(taker, all, whole), end);
    }
    if (all) {
      await(() -> ofHost.get() == 0, end);
    }
  }

  private boolean isTold(DeviceTimes taker, boolean all, long looks) {
    taker.look();
    return left || (all ? points.isEmpty() : taker.looks() >= looks);
  }

  private static void await(BooleanSupplier condition, long end) {
    Patience.until(condition, Duration.ofNanos(Math.max(0, end - System.nanoTime())));
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

  /**
   * Tells the points that were reached, in their order.
   *
   * @throws NcclException if the GPU has failed
   */
  void take(DeviceTimes taker) {
    for (Point first = points.peek(); first != null; first = points.peek()) {
      long nanos;
      try {
        if (!first.event.isComplete()) {
          return;
        }
        nanos = taker.nanos(first.event);
      } catch (NcclException e) { // such as of an event that a capture has caught
        taker.check();
        points.remove();
        free(first.event);
        warn("its time cannot be taken", e);
        continue;
      }
      tell(first.reached, nanos);
      points.remove(); // not before it is told: see settle
      taker.free(first.event);
    }
  }

  /** The thread that calls this is also that of other listeners, or runs operations. */
  private void tell(LongConsumer reached, long nanos) {
    try {
      reached.accept(nanos);
    } catch (Throwable e) { // some languages throw checked exceptions anywhere
      warn("its listener fails", e);
    }
  }

  private void warn(String why, Throwable e) {
    if (warned.getAndSet(true)) {
      return;
    }
    try {
      LOG.log(
          System.Logger.Level.WARNING,
          "the end of an operation is not told, since "
              + why
              + "; later ones are left out without a message",
          e);
    } catch (RuntimeException | Error broken) {
      e.addSuppressed(broken); // a log that fails must not end the thread either
    }
  }

  /** Called by the device's thread, which takes no more points. */
  void leave() {
    left = true;
    drop();
  }

  private void drop() {
    for (Point point = points.poll(); point != null; point = points.poll()) {
      free(point.event);
    }
  }

  private static void free(DeviceEvent event) {
    try {
      event.close();
    } catch (NcclException e) {
      // A GPU that has failed frees them with the process.
    }
  }
}
