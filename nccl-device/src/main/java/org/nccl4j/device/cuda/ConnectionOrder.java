package org.nccl4j.device.cuda;

import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import jcuda.driver.CUevent;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidUsageException;

/**
 * One order for what goes by the same connections, launched by one communicator or by several that
 * share them: each launch comes after the one before, whatever their streams. Where the stream
 * changes, an event is recorded in the one before.
 *
 * <p>What is captured is in the order of its capture alone. The graph that comes of it has its
 * place in the order whenever it is launched ({@link CudaGraph}). Nothing is known of graphs that
 * others than this library capture and launch. So where connections are shared, launches into such
 * captures are refused; and connections that may be in such a graph already are not shared.
 *
 * <p>Who launches holds this object's monitor from {@link #follow} to {@link #launched}, but for
 * launches that are {@link #isPlain}.
 */
final class ConnectionOrder implements AutoCloseable {
  private static final AtomicLong NUMBERS = new AtomicLong();

  private final CudaDevice device;
  private final long number = NUMBERS.incrementAndGet();
  private final Offheap scratch = new Offheap(CaptureLibrary.SCRATCH_BYTES);
  private final CUevent behind;
  private CUevent captured; // the same in captures; null before the first
  private CudaStream last; // of what is not captured; null before the first
  private boolean recorded; // behind is recorded behind the last launch already
  private boolean capturing; // the launch under way is captured
  private long otherCapture; // the last that others began
  private CudaStream otherLast; // in that
  private boolean shared;

  /** Where a launch needs nothing but its stream, while this library captures nothing. */
  private volatile CudaStream plain;

  private volatile boolean inOtherGraphs;
  private volatile boolean inGraphs;
  private boolean closed;

  ConnectionOrder(CudaDevice device) {
    this.device = device;
    behind = device.context().get(() -> JCudaLibrary.createEvent(false, device));
  }

  /** Those that were made later have higher numbers. */
  long number() {
    return number;
  }

  /** Several communicators launch from now on. */
  synchronized void share() {
    shared = true;
    plain = null;
  }

  /** Why they cannot be shared, as a clause; empty if they can. */
  Optional<String> sharingObstacle() {
    return inOtherGraphs
        ? Optional.of(
            "its operations were captured into a graph, and not by CudaStream.beginCapture")
        : Optional.empty();
  }

  /**
   * Whether a launch is in order by its stream alone: the last one was in it too, and it is not
   * being captured. Whether others capture a stream is asked for streams of others alone, since
   * asking takes some tenths of a microsecond.
   *
   * @param asking the caller's own, of {@link CaptureLibrary#SCRATCH_BYTES}
   */
  @HotPath
  boolean isPlain(CudaStream into, Offheap asking) {
    return into == plain
        && !device.context().captures().areOpen()
        && (into.isOwned() || CaptureLibrary.capture(into, asking) == 0);
  }

  /** Has what comes next in a stream wait for the last launch, in the current context. */
  void follow(CudaStream into) {
    assert Thread.holdsLock(this);
    long capture = CaptureLibrary.capture(into, scratch);
    capturing = capture != 0;
    if (closed) {
      return;
    }
    CudaStream from = last;
    if (capturing) {
      followCaptured(into, capture);
    } else if (from != null && (from != into || recorded)) {
      recordBehind(from);
      if (recorded) {
        JCudaLibrary.awaitEvent(into.stream(), behind, device);
      }
    }
  }

  /** A stream that is being captured records nothing; one that was closed had ended all. */
  private void recordBehind(CudaStream from) {
    if (recorded || from.isClosed()) {
      return;
    }
    if (CaptureLibrary.capture(from, scratch) == 0) {
      JCudaLibrary.recordEvent(behind, from.stream(), device);
      recorded = true;
      plain = null;
    } else if (shared) {
      throw new InvalidUsageException(
          ErrorId.CAPTURE,
          "a stream of %s is being captured, not by CudaStream.beginCapture, that an operation on"
                  .formatted(device)
              + " shared connections is to wait for",
          "capture it by CudaStream.beginCapture, or split with withSplitShare(false)");
    }
  }

  /** Whether any launch was captured. */
  boolean isInGraphs() {
    return inGraphs;
  }

  private void followCaptured(CudaStream into, long capture) {
    inGraphs = true;
    if (capture == CaptureLibrary.SPOILT) {
      return; // the launch says so
    }
    Captures.Capture ours = device.context().captures().find(capture);
    CudaStream from;
    if (ours != null) {
      from = ours.add(this, into);
    } else {
      if (shared) {
        throw new InvalidUsageException(
            ErrorId.CAPTURE,
            "an operation on shared connections is captured on %s, and not by".formatted(device)
                + " CudaStream.beginCapture: nothing would order the graph's launches with others",
            "capture it by CudaStream.beginCapture, or split with withSplitShare(false)");
      }
      inOtherGraphs = true;
      from = capture == otherCapture ? otherLast : null;
      otherCapture = capture;
      otherLast = into;
    }
    if (from != null
        && from != into
        && !from.isClosed()
        && CaptureLibrary.capture(from, scratch) == capture) {
      if (captured == null) {
        captured = JCudaLibrary.createEvent(false, device);
      }
      JCudaLibrary.recordEvent(captured, from.stream(), device);
      JCudaLibrary.awaitEvent(into.stream(), captured, device);
    }
  }

  /** Something was put into the stream; what comes next follows it. In the current context. */
  void launched(CudaStream into) {
    assert Thread.holdsLock(this);
    if (capturing || closed) {
      return;
    }
    last = into;
    recorded = false;
    if (shared && into.isImplicit()) {
      // On another thread its handle may mean another stream.
      JCudaLibrary.recordEvent(behind, into.stream(), device);
      recorded = true;
    }
    plain = shared ? null : into;
  }

  /** A stream is about to be captured; it will record nothing until the capture's end. */
  synchronized void beforeCapture(CudaStream stream) {
    if (!closed && stream == last) {
      device.context().run(() -> recordBehind(stream));
    }
  }

  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      JCudaLibrary.destroyEvent(behind, device);
      if (captured != null) {
        JCudaLibrary.destroyEvent(captured, device);
      }
    }
  }
}
