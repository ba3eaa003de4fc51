package org.nccl4j.device.cuda.stream;

import java.util.concurrent.atomic.AtomicLong;
import jcuda.driver.CUresult;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.Gpu;

/**
 * Tells other threads whether a communicator's launches in the library's streams have ended. A
 * query of a stream that is being captured breaks the capture, and the user may begin one at any
 * time. So an event of the library is recorded in the stream, and only the event is queried. If the
 * record has become part of a capture it does no harm, but the event must not be queried: the
 * stream is checked before and after.
 *
 * <p>Any thread may ask; {@code launched} belongs to the one that launches.
 */
public final class StreamProgress implements AutoCloseable {
  private final Gpu gpu;
  private final long event;

  /** Launches so far. Published by setRelease; read by who asks. */
  private final AtomicLong launches = new AtomicLong();

  private GpuStream recordedIn; // null: nothing that could be asked about
  private long launchesBefore; // the record came after these
  private long graphsBefore;
  private boolean closed;

  public StreamProgress(Gpu gpu) {
    this.gpu = gpu;
    event = gpu.context().get(() -> CudaLibrary.createEvent(false, gpu));
  }

  /** Counts another launch; launches so far. */
  public long launched() {
    return launched(1);
  }

  /** Counts a launch of several operations as so many launches; launches so far. */
  public long launched(int operations) {
    long now = launches.getPlain() + operations;
    launches.setRelease(now);
    return now;
  }

  /** Launches so far. Any thread. */
  public long launches() {
    return launches.getAcquire();
  }

  /**
   * True if all has ended that was launched into a stream, graphs too. No while the stream is being
   * captured, and often at the first question, since a record takes the device a while.
   */
  public synchronized boolean isIdle(GpuStream stream) {
    if (closed) {
      return true;
    }
    return gpu.context().get(() -> isReachedNow(stream));
  }

  private boolean isReachedNow(GpuStream stream) {
    boolean current =
        recordedIn == stream
            && launchesBefore == launches.getAcquire()
            && graphsBefore == stream.graphs();
    if (!current) {
      Boolean recorded = stream.whileOpen(() -> record(stream));
      if (recorded == null) {
        return true; // closing it has waited
      }
      if (!recorded) {
        return false;
      }
    }
    boolean reached = isReached();
    if (reached) {
      recordedIn = null; // each question gets the state at its time
    }
    return reached;
  }

  private boolean isReached() {
    try {
      return CudaLibrary.isEventComplete(event, gpu);
    } catch (CudaException e) {
      if (e.result() != CUresult.CUDA_ERROR_CAPTURED_EVENT) {
        throw e;
      }
      recordedIn = null; // of a capture that began and ended between the two looks
      return false;
    }
  }

  /** True if the event is one that may be asked about now. */
  private boolean record(GpuStream stream) {
    recordedIn = null;
    long launchesNow = launches.getAcquire();
    long graphsNow = stream.graphs();
    if (CudaLibrary.mayBeCapturing(stream.handle(), gpu)) {
      return false;
    }
    CudaLibrary.recordEvent(event, stream.handle(), gpu);
    if (CudaLibrary.mayBeCapturing(stream.handle(), gpu)) {
      return false; // the capture may have begun before the record
    }
    recordedIn = stream;
    launchesBefore = launchesNow;
    graphsBefore = graphsNow;
    return true;
  }

  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      CudaLibrary.destroyEvent(event, gpu);
    }
  }
}
