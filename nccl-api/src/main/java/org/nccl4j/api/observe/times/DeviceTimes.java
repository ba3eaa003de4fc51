package org.nccl4j.api.observe.times;

import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.support.DaemonThread;
import org.nccl4j.device.support.Patience;

/**
 * The thread that takes the times of one GPU's events, for all {@link StreamTimes} of this process
 * that have points there. It begins with the first of them and ends with the last.
 */
final class DeviceTimes {
  private static final System.Logger LOG = DebugLog.of("PROFILE");

  private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(1);

  /** Between looks while there are no points. */
  private static final long IDLE_NANOS = TimeUnit.MILLISECONDS.toNanos(5);

  /** After so long without points it sleeps until there is one. */
  private static final long AWAKE_NANOS = TimeUnit.SECONDS.toNanos(1);

  private static final long ASLEEP_NANOS = TimeUnit.SECONDS.toNanos(1);

  /** After so long the clocks of processor and GPU are compared again. */
  private static final long COMPARED_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  /** The same without points; less than {@link #DRIFT_NANOS}. */
  private static final long IDLE_COMPARED_NANOS = TimeUnit.SECONDS.toNanos(5);

  /** After so long they have drifted apart by more than a comparison that took long is wrong. */
  private static final long DRIFT_NANOS = TimeUnit.SECONDS.toNanos(10);

  private static final int COMPARISONS = 3;

  /** Of a comparison that is taken at once: the GPU records an idle stream's event in less. */
  private static final long SHORT_NANOS = TimeUnit.MICROSECONDS.toNanos(200);

  /**
   * Of any: another stream's kernels may come first, such as with CUDA_DEVICE_MAX_CONNECTIONS=1.
   */
  private static final long LONG_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  /** By device, those whose threads run. Guarded by itself. */
  private static final Map<Device, DeviceTimes> ALL = new IdentityHashMap<>();

  private final Device device;
  private final Thread thread;

  /** Added under the lock of {@link #ALL}. */
  private final List<StreamTimes> users = new CopyOnWriteArrayList<>();

  /** Events of points that were reached. */
  private final Queue<DeviceEvent> free = new ConcurrentLinkedQueue<>();

  /** Looks at all points that have ended. Written by the thread. */
  private volatile long looks;

  /** True while the thread may be parked for long. */
  private volatile boolean asleep;

  // Of the thread alone.

  private final List<DeviceEvent> comparisons = new ArrayList<>();
  private DeviceStream stream;

  /** An event whose time by both clocks is known; null before the first. */
  private DeviceEvent compared;

  private long comparedNanos;
  private long lookedNanos;

  /** When there were points last. */
  private long busyNanos;

  private DeviceTimes(Device device) {
    this.device = device;
    thread = DaemonThread.of(this::run, "nccl4j-times");
  }

  /** The times of a device, which take the points of one more from now on. */
  static DeviceTimes join(Device device, StreamTimes user) {
    synchronized (ALL) {
      DeviceTimes known = ALL.get(device);
      if (known == null) {
        known = new DeviceTimes(device);
        known.thread.start(); // fails where the system has no room for a thread
        ALL.put(device, known);
      }
      known.users.add(user);
      return known;
    }
  }

  /** An event of the device, which nobody uses. */
  DeviceEvent event() {
    DeviceEvent event = free.poll();
    return event == null ? device.createEvent() : event;
  }

  /** Takes an event back. */
  void free(DeviceEvent event) {
    free.add(event);
  }

  /** A point was added. */
  void wakeUp() {
    if (asleep) {
      LockSupport.unpark(thread);
    }
  }

  /** The number of looks that have ended; the second from now on begins after this call. */
  long looks() {
    return looks;
  }

  /** Has the thread look at the points now. */
  void look() {
    LockSupport.unpark(thread);
  }

  /** True if this is the thread. */
  boolean isOwn() {
    return Thread.currentThread() == thread;
  }

  /** The time of an event that a stream has reached. */
  long nanos(DeviceEvent event) {
    return comparedNanos + (long) (1000 * event.microsecondsSince(compared));
  }

  /**
   * Checks that the GPU works.
   *
   * @throws NcclException if even an event that was reached long ago cannot be asked
   */
  void check() {
    compared.isComplete();
  }

  private void run() {
    try {
      stream = device.createStream();
      for (int n = 0; n <= COMPARISONS; n++) { // one more, which is kept
        comparisons.add(device.createEvent());
      }
      busyNanos = System.nanoTime();
      while (!isOver()) {
        takeAll();
        looks = looks + 1;
        park();
      }
    } catch (NcclException e) { // the GPU has failed, as others report, or has no memory
      LOG.log(
          System.Logger.Level.WARNING,
          "the ends of operations on " + device.name() + " are no longer told",
          e);
    } finally {
      end();
      free();
    }
  }

  private void takeAll() {
    boolean busy = areAny();
    long now = System.nanoTime();
    busyNanos = busy ? now : busyNanos;
    if (compared == null || now - lookedNanos > (busy ? COMPARED_NANOS : IDLE_COMPARED_NANOS)) {
      compare();
    }
    for (StreamTimes user : users) {
      if (compared != null) {
        user.take(this);
      }
      if (user.isOver()) {
        users.remove(user);
        user.leave();
      }
    }
  }

  private boolean areAny() {
    for (StreamTimes user : users) {
      if (!user.isEmpty()) {
        return true;
      }
    }
    return false;
  }

  /** Waits as long as the points allow. */
  private void park() {
    if (areAny()) {
      Patience.parkOwn(this, LOOK_NANOS);
    } else if (System.nanoTime() - busyNanos < AWAKE_NANOS) {
      Patience.parkOwn(this, IDLE_NANOS);
    } else {
      asleep = true;
      if (!areAny()) { // a point that comes now wakes it
        Patience.parkOwn(this, ASLEEP_NANOS);
      }
      asleep = false;
    }
  }

  /** True if nobody has points here any more; then nobody can join either. */
  private boolean isOver() {
    synchronized (ALL) {
      boolean over = users.isEmpty();
      if (over) {
        ALL.remove(device, this);
      }
      return over;
    }
  }

  /** Takes no more points of those that are left, where the GPU has failed. */
  private void end() {
    synchronized (ALL) {
      ALL.remove(device, this);
    }
    users.forEach(StreamTimes::leave);
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

  private void free() {
    try {
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
