package org.nccl4j.device.cuda.stream;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.driver.CaptureLibrary;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.Gpu;

/**
 * One order for what goes by the same connections, launched by one communicator or by several that
 * share them: each launch comes after the one before, whatever their streams. Where the stream
 * changes, an event is recorded in the one before. A stream of the user's may be destroyed as soon
 * as its work has ended, so there the event is recorded with the launch.
 *
 * <p>What is captured is in the order of its capture alone. The graph that comes of it has its
 * place in the order whenever it is launched ({@code CudaGraph}). Of graphs that others than this
 * library capture nobody says when they are launched. So they wait for the event themselves, and
 * record it; and from the first such capture on every other launch does so too. Where connections
 * are shared, launches into such captures are refused; and connections that may be in such a graph
 * already are not shared.
 *
 * <p>Who launches holds this object's monitor from {@link #follow} to {@link #launched}, but for
 * launches that are {@link #isPlain}.
 */
public final class ConnectionOrder implements AutoCloseable {
  private static final AtomicLong NUMBERS = new AtomicLong();
  private static final int OTHER_CAPTURES = 16; // most at a time; their end is not reported

  private final Gpu gpu;
  private final CaptureRegistry captures;
  private final long number = NUMBERS.incrementAndGet();
  private final Offheap scratch = new Offheap(CaptureLibrary.SCRATCH_BYTES);
  private final long behind;
  private long captured; // event of the last captured launch; 0 before the first
  private GpuStream last; // stream of the last launch outside captures; null before the first
  private boolean recorded; // behind is recorded behind the last launch already
  private long capture; // into which the launch under way goes; 0 for none
  private boolean byOthers; // code outside this library began the capture
  private CaptureRegistry.Capture ours; // null if there is none, or code outside began it

  /** The last captures that others began, and where each has its last launch. */
  private final Map<Long, GpuStream> otherLast =
      new LinkedHashMap<>() {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<Long, GpuStream> eldest) {
          return size() > OTHER_CAPTURES;
        }
      };

  private boolean shared;

  /**
   * Stream of the library that a launch needs no events for, while it is not capturing; else null.
   */
  private volatile GpuStream plain;

  private volatile boolean inOtherGraphs;
  private volatile boolean inGraphs;
  private final Object asking = new Object(); // held while the event behind is asked about
  private boolean closed;

  /**
   * An order of launches.
   *
   * @param captures of the GPU's streams
   */
  public ConnectionOrder(Gpu gpu, CaptureRegistry captures) {
    this.gpu = gpu;
    this.captures = captures;
    behind = gpu.context().get(() -> CudaLibrary.createEvent(false, gpu));
  }

  /** A number; an order that was made later has a higher one. */
  long number() {
    return number;
  }

  /** Several communicators launch from now on. */
  public synchronized void share() {
    shared = true;
    plain = null;
  }

  /** Why they cannot be shared, as a clause; empty if they can. */
  public Optional<String> sharingObstacle() {
    return inOtherGraphs
        ? Optional.of(
            "its operations were captured into a graph, and not by CudaStream.beginCapture")
        : Optional.empty();
  }

  /**
   * True if a launch is in order by its stream alone: the last one was in it too, and it is not
   * being captured. Streams of the library's are captured by it alone, after {@link
   * #beforeCapture}.
   */
  @HotPath
  public boolean isPlain(GpuStream into) {
    return into == plain && !captures.areOpen();
  }

  /** Has what comes next in a stream wait for the last launch, in the current context. */
  public void follow(GpuStream into) {
    assert Thread.holdsLock(this);
    capture = CaptureLibrary.capture(into.handle(), scratch, gpu);
    byOthers = false;
    ours = null;
    if (closed) {
      return;
    }
    if (capture != 0) {
      followCaptured(into);
    } else if (inOtherGraphs || last != null && !into.isSameAs(last)) {
      recordBehindLast();
      if (inOtherGraphs || recorded) {
        CudaLibrary.awaitEvent(into.handle(), behind, gpu);
      }
    }
  }

  /** Returns the number of the capture that the launch under way goes into; 0 for none. */
  public long capture() {
    assert Thread.holdsLock(this);
    return capture;
  }

  /** The capture that the launch under way goes into; null if this library has not begun one. */
  public CaptureRegistry.Capture ownCapture() {
    assert Thread.holdsLock(this);
    return ours;
  }

  /** A stream that is being captured records nothing; one that was closed had ended all. */
  private void recordBehindLast() {
    recordIfUncaptured();
    if (shared && !recorded && last != null && !last.isClosed()) {
      throw new InvalidUsageException(
          ErrorId.CAPTURE,
          "an operation on shared connections cannot be ordered after a stream of %s:"
                  .formatted(gpu)
              + " the stream is being captured, but not by CudaStream.beginCapture",
          "capture it with CudaStream.beginCapture, or split with withSplitShare(false)");
    }
  }

  /** Asks nothing of a stream whose event is recorded: the user may have destroyed it. */
  private void recordIfUncaptured() {
    GpuStream from = last;
    if (recorded || from == null || from.isClosed()) {
      return;
    }
    if (CaptureLibrary.capture(from.handle(), scratch, gpu) == 0) {
      CudaLibrary.recordEvent(behind, from.handle(), gpu);
      recorded = true;
      plain = null;
    }
  }

  /** True if any launch was captured. */
  public boolean isInGraphs() {
    return inGraphs;
  }

  /** True if others than this library captured any. Then all launches record the event. */
  public boolean isInOtherGraphs() {
    return inOtherGraphs;
  }

  private void followCaptured(GpuStream into) {
    inGraphs = true;
    if (capture == CaptureLibrary.SPOILT) {
      return; // the launch says so
    }
    ours = captures.find(capture);
    GpuStream from;
    if (ours != null) {
      from = ours.add(this, into);
    } else {
      if (shared) {
        throw new InvalidUsageException(
            ErrorId.CAPTURE,
            "an operation on shared connections is captured on %s, and not by".formatted(gpu)
                + " CudaStream.beginCapture: nothing would order the graph's launches with others",
            "capture it by CudaStream.beginCapture, or split with withSplitShare(false)");
      }
      from = followInOtherGraph(into);
    }
    if (from != null
        && !into.isSameAs(from)
        && !from.isClosed()
        && CaptureLibrary.capture(from.handle(), scratch, gpu) == capture) {
      if (captured == 0) {
        captured = CudaLibrary.createEvent(false, gpu);
      }
      CudaLibrary.recordEvent(captured, from.handle(), gpu);
      CudaLibrary.awaitEvent(into.handle(), captured, gpu);
    }
  }

  /** The stream of the launch before in the same capture; null for the first. */
  private GpuStream followInOtherGraph(GpuStream into) {
    byOthers = true;
    inOtherGraphs = true;
    plain = null;
    boolean first = !otherLast.containsKey(capture);
    if (first) {
      recordBehindLast();
      CaptureLibrary.awaitAtLaunch(into.handle(), behind, gpu);
    }
    return otherLast.put(capture, into);
  }

  /**
   * Work was put into the stream; the next launch follows it. In the current context.
   *
   * @return true if it was captured, and so is not in the stream itself
   */
  public boolean launched(GpuStream into) {
    assert Thread.holdsLock(this);
    if (byOthers && !closed) {
      CaptureLibrary.recordAtLaunch(behind, into.handle(), gpu);
    }
    if (capture != 0 || closed) {
      return capture != 0;
    }
    last = into;
    recorded = inOtherGraphs || !into.isOwned();
    if (recorded) {
      CudaLibrary.recordEvent(behind, into.handle(), gpu);
    }
    plain = shared || recorded ? null : into;
    return false;
  }

  /**
   * True if all has ended that was launched into streams of the user's or is in graphs that others
   * have captured: the event is recorded with each launch. Any thread; it waits for none that
   * launches.
   */
  public boolean isReached() {
    synchronized (asking) {
      return closed || gpu.context().get(() -> CudaLibrary.isEventComplete(behind, gpu));
    }
  }

  /**
   * A stream is about to be captured, or may be; it will record nothing until the capture's end.
   * The next launch asks the driver.
   */
  synchronized void beforeCapture(GpuStream stream) {
    if (!closed && stream.isSameAs(last)) {
      plain = null;
      gpu.context().run(this::recordIfUncaptured);
    }
  }

  /**
   * One of several communicators is closed. Its streams no longer say when they are about to be
   * captured, so the event is recorded now.
   */
  public synchronized void left() {
    if (!closed) {
      gpu.context().run(this::recordIfUncaptured);
    }
  }

  @Override
  public synchronized void close() {
    if (!closed) {
      synchronized (asking) {
        closed = true;
        CudaLibrary.destroyEvent(behind, gpu);
      }
      if (captured != 0) {
        CudaLibrary.destroyEvent(captured, gpu);
      }
    }
  }
}
