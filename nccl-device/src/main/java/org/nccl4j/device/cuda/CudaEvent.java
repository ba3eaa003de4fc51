package org.nccl4j.device.cuda;

import org.nccl4j.device.Arguments;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.Gpu;

/** A CUDA event. */
final class CudaEvent extends DeviceEvent {
  private final Gpu gpu;
  private final long event;
  private final boolean owned;
  private volatile boolean closed;

  /**
   * An event.
   *
   * @param event the CUevent
   * @param owned whether this library has made it
   */
  CudaEvent(Gpu gpu, long event, boolean owned) {
    this.gpu = gpu;
    this.event = event;
    this.owned = owned;
  }

  /** Throws after close: the driver takes the memory of an event that it has destroyed for one. */
  long handle() {
    if (closed) {
      throw closed();
    }
    return event;
  }

  /** {@inheritDoc} Does not disturb streams that are being captured. */
  @Override
  public boolean isComplete() {
    long asked = handle();
    return gpu.context().get(() -> CudaLibrary.isEventComplete(asked, gpu));
  }

  @Override
  public void synchronize() {
    CudaLibrary.synchronizeEvent(handle(), gpu);
  }

  @Override
  public double microsecondsSince(DeviceEvent earlier) {
    if (!(Arguments.notNull(earlier, "earlier event") instanceof CudaEvent other)) {
      throw new InvalidArgumentException(
          ErrorId.EVENT,
          "the time between events of different kinds of device is requested",
          "use two events of one device");
    }
    long begin = other.handle();
    long end = handle();
    float milliseconds = gpu.context().get(() -> CudaLibrary.elapsedMilliseconds(begin, end, gpu));
    if (Float.isNaN(milliseconds)) {
      throw new InvalidUsageException(
          ErrorId.NOT_HAPPENED,
          "the time between two events is requested before both have happened",
          "synchronize the later event first");
    }
    return 1000.0 * milliseconds;
  }

  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      if (owned) {
        CudaLibrary.destroyEvent(event, gpu);
      }
    }
  }
}
