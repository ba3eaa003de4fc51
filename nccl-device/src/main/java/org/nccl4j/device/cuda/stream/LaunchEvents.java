package org.nccl4j.device.cuda.stream;

import java.util.function.BooleanSupplier;
import jcuda.driver.CUresult;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.Gpu;

/**
 * Bounds on the number of a communicator's finished launches. Kernels count nothing: at each look,
 * the observer records an event behind the launches, and the events show which launches have ended.
 * So a launch costs nothing more, and the bounds are as far apart as the launches between two
 * looks. The user may destroy a stream as soon as its work has ended; in such streams launches
 * record events now and then.
 *
 * <p>Launches of a communicator follow each other, so an event behind the last is behind all. Any
 * thread, one at a time.
 */
public final class LaunchEvents implements AutoCloseable {
  /** Most events under way; while they are, no other is recorded. */
  public static final int MARKS = 8;

  /** Between marks that launches record, at least. */
  public static final long LAUNCHES_MARK_NANOS = 10_000_000;

  private final Gpu gpu;
  private final BooleanSupplier failed;
  private final long[] events = new long[MARKS];

  /** Launches before each event under way, oldest first; at the events' places. */
  private final long[] launches = new long[MARKS];

  private long begun; // number of recorded events; its remainder is the next one's place
  private long reached; // of these, known to have happened
  private long ended;
  private long marked; // launches before the newest event
  private long nextMark; // in launches; owner: the launching thread
  private boolean launchMarked; // owner: the launching thread
  private boolean closed;

  /**
   * Marks of a communicator. Makes their events, so that no launch has to.
   *
   * @param failed whether it has: kernels then end without having done what they should
   */
  public LaunchEvents(Gpu gpu, BooleanSupplier failed) {
    this.gpu = gpu;
    this.failed = failed;
    gpu.context().run(this::makeEvents);
  }

  private void makeEvents() {
    for (int at = 0; at < MARKS; at++) {
      events[at] = CudaLibrary.createEvent(false, gpu);
    }
  }

  /**
   * Launches that have ended, at least, as another look has it.
   *
   * @param soFar launches so far, asked for before the stream: it has all of them, or more
   * @param last the stream of the communicator's last launch; null before the first
   * @param order of the same communicator
   */
  public long ended(long soFar, GpuStream last, ConnectionOrder order) {
    if (last != null && !last.isOwned()) {
      if (order.isReached()) {
        allEnded(soFar);
      } else {
        look();
      }
    } else if (last == null || last.isClosed()) {
      allEnded(soFar); // closing it has waited
    } else {
      look(soFar, last);
    }
    return ended();
  }

  /**
   * A launch into a stream of the user's that was not captured, in the current context. Of the
   * thread that launches. In libnccl.so.2 what it calls is compiled as a part of it (jvm.c), for it
   * is called too seldom to be compiled by itself.
   *
   * @param soFar launches so far
   * @param nowNanos as System.nanoTime has it
   */
  @HotPath
  public void launched(long soFar, GpuStream stream, long nowNanos) {
    if (!launchMarked || nowNanos - nextMark >= 0) {
      launchMarked = true;
      nextMark = nowNanos + LAUNCHES_MARK_NANOS;
      markLaunch(soFar, stream);
    }
  }

  private synchronized void markLaunch(long soFar, GpuStream stream) {
    if (!closed && begun - reached < MARKS) {
      record(soFar, stream);
      begun++;
    }
  }

  private synchronized void look() {
    if (!closed) {
      gpu.context().run(this::poll);
    }
  }

  /**
   * Looks, and records another event if there have been launches since the last.
   *
   * @param soFar launches so far
   * @param stream of the last launch, of the library's
   */
  private synchronized void look(long soFar, GpuStream stream) {
    if (!closed) {
      gpu.context()
          .run(
              () -> {
                poll();
                if (soFar > marked && begun - reached < MARKS) {
                  stream.whileOpen(() -> mark(soFar, stream));
                  poll();
                }
              });
    }
  }

  /** All launches so far have ended, as is known from elsewhere. */
  private synchronized void allEnded(long soFar) {
    if (!closed && !failed.getAsBoolean()) {
      ended = Math.max(ended, soFar);
    }
  }

  /** Launches that have ended, at least. */
  public synchronized long ended() {
    return ended;
  }

  /**
   * The highest number that the first launch that has not ended can have.
   *
   * @param soFar launches so far
   */
  public synchronized long firstNotEnded(long soFar) {
    return reached < begun ? launches[place(reached)] : soFar;
  }

  private static int place(long event) {
    return (int) (event % MARKS);
  }

  private void poll() {
    while (reached < begun && isReached(events[place(reached)]) && !failed.getAsBoolean()) {
      ended = Math.max(ended, launches[place(reached)]);
      reached++;
    }
  }

  /** An event that became part of a capture says nothing, and is none under way. */
  private boolean isReached(long event) {
    try {
      return CudaLibrary.isEventComplete(event, gpu);
    } catch (CudaException e) {
      if (e.result() != CUresult.CUDA_ERROR_CAPTURED_EVENT) {
        throw e;
      }
      launches[place(reached)] = 0;
      marked = ended;
      return true;
    }
  }

  /**
   * Records an event as {@link StreamProgress} does, but not in a capture. It checks for a capture
   * before and after.
   */
  private boolean mark(long soFar, GpuStream stream) {
    if (CudaLibrary.mayBeCapturing(stream.handle(), gpu)) {
      return false;
    }
    record(soFar, stream);
    if (CudaLibrary.mayBeCapturing(stream.handle(), gpu)) {
      return false;
    }
    begun++;
    return true;
  }

  /** Records the next event. The caller counts it. */
  private void record(long soFar, GpuStream stream) {
    int at = place(begun);
    CudaLibrary.recordEvent(events[at], stream.handle(), gpu);
    launches[at] = soFar;
    marked = soFar;
  }

  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      for (long event : events) {
        CudaLibrary.destroyEvent(event, gpu);
      }
    }
  }
}
