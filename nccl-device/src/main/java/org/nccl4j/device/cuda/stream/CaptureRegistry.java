package org.nccl4j.device.cuda.stream;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.driver.CaptureLibrary;

/** The captures of a GPU's streams that this library has begun and that go on. Any thread. */
public final class CaptureRegistry {
  private final Map<Long, Capture> open = new ConcurrentHashMap<>();

  /** True while there are captures. Written under this object's monitor; read by launches. */
  private volatile boolean areOpen;

  /** A capture, and the connections that what it holds goes by. */
  public static final class Capture {
    private final long number;
    private final Map<ConnectionOrder, GpuStream> last = new LinkedHashMap<>();

    private Capture(long number) {
      this.number = number;
    }

    /**
     * Something that goes by connections is captured.
     *
     * @return the stream where the one before it in this capture is; null for the first
     */
    synchronized GpuStream add(ConnectionOrder order, GpuStream stream) {
      return last.put(order, stream);
    }

    /** The orders of all connections, each before those that were made later. */
    public synchronized List<ConnectionOrder> orders() {
      List<ConnectionOrder> all = new ArrayList<>(last.keySet());
      all.sort(Comparator.comparingLong(ConnectionOrder::number));
      return List.copyOf(all);
    }
  }

  /** True if there are any, as far as a thread knows that had no part in them. */
  @HotPath
  boolean areOpen() {
    return areOpen;
  }

  /** A stream's capture has been begun. */
  public Capture begun(GpuStream stream) {
    long number =
        CaptureLibrary.capture(
            stream.handle(), new Offheap(CaptureLibrary.SCRATCH_BYTES), stream.gpu());
    Capture capture = new Capture(number);
    synchronized (this) {
      open.put(number, capture);
      areOpen = true;
    }
    return capture;
  }

  /** One by the driver's number; null if this library has not begun it. */
  Capture find(long number) {
    return open.get(number);
  }

  /** Removes a capture that has ended. */
  public synchronized void ended(Capture capture) {
    open.remove(capture.number, capture);
    areOpen = !open.isEmpty();
  }
}
