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
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.kernel.CapturedLaunches;

/** The captures of a GPU's streams that this library has begun and that go on. Any thread. */
public final class CaptureRegistry {
  private final Map<Long, Capture> open = new ConcurrentHashMap<>();

  /** True while there are captures. Written under this object's monitor; read by launches. */
  private volatile boolean areOpen;

  /** A capture, and the connections that what it holds goes by. */
  public static final class Capture {
    private final long number;
    private final Map<ConnectionOrder, GpuStream> last = new LinkedHashMap<>();
    private final Map<UsedGraphs, CapturedLaunches> launches = new LinkedHashMap<>();

    /** Things that the graph needs, with the actions that free them. */
    private final Map<Object, Runnable> kept = new LinkedHashMap<>();

    private Capture(long number) {
      this.number = number;
    }

    /** A capture that this library knows nothing of. */
    public static Capture unknown() {
      return new Capture(0);
    }

    /**
     * Something that goes by connections is captured.
     *
     * @return the stream where the one before it in this capture is; null for the first
     */
    synchronized GpuStream add(ConnectionOrder order, GpuStream stream) {
      return last.put(order, stream);
    }

    /** A communicator's launches in it. */
    public synchronized CapturedLaunches launches(UsedGraphs of) {
      return launches.computeIfAbsent(of, UsedGraphs::begin);
    }

    /** The same of all communicators. */
    public synchronized List<CapturedLaunches> launches() {
      return List.copyOf(launches.values());
    }

    /** The communicators whose launches these are, in the same order. */
    public synchronized List<StreamUser> users() {
      return launches.keySet().stream().map(UsedGraphs::user).toList();
    }

    /**
     * Keeps something for as long as the graph may run.
     *
     * @param free must neither wait nor throw, nor call the driver, whose thread may run it
     * @return false if it is kept already
     */
    public synchronized boolean keep(Object what, Runnable free) {
      return kept.putIfAbsent(what, free) == null;
    }

    /** Frees what was kept once a graph that came of it, and what is made of that, have ended. */
    public void freeWith(long graph, Gpu gpu) {
      if (keepsAny()) {
        GraphEnds.await(graph, this::free, gpu);
      }
    }

    private synchronized boolean keepsAny() {
      return !kept.isEmpty();
    }

    /** Frees what was kept, since there is no graph. */
    public synchronized void free() {
      kept.values().forEach(Runnable::run);
      kept.clear();
      launches.values().forEach(CapturedLaunches::end);
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
  public Capture find(long number) {
    return open.get(number);
  }

  /** The capture that a stream is in; null if there is none that this library has begun. */
  public Capture of(GpuStream stream) {
    return areOpen
        ? find(
            CaptureLibrary.capture(
                stream.handle(), new Offheap(CaptureLibrary.SCRATCH_BYTES), stream.gpu()))
        : null;
  }

  /** Removes a capture that has ended. */
  public synchronized void ended(Capture capture) {
    open.remove(capture.number, capture);
    areOpen = !open.isEmpty();
  }
}
