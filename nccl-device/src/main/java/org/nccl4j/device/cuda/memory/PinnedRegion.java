package org.nccl4j.device.cuda.memory;

import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.Gpu;

/**
 * A range of the host's memory that a GPU loads from and stores to, pinned while this is open: how
 * GPUs share memory that cannot reach each other's. Any thread may call.
 */
public final class PinnedRegion implements AutoCloseable {
  private final Gpu gpu;
  private final long host;
  private final long address;
  private boolean closed;

  private PinnedRegion(Gpu gpu, long host, long address) {
    this.gpu = gpu;
    this.host = host;
    this.address = address;
  }

  /**
   * Pins a range.
   *
   * @param host its address, a multiple of a page
   * @throws org.nccl4j.device.CudaException if the driver does not take it; nothing is pinned then
   */
  public static PinnedRegion of(Gpu gpu, long host, long bytes) {
    return gpu.context()
        .get(
            () -> {
              CudaLibrary.registerHost(host, bytes, gpu);
              try {
                return new PinnedRegion(gpu, host, CudaLibrary.hostDeviceAddress(host, gpu));
              } catch (RuntimeException e) {
                CudaLibrary.unregisterHost(host, gpu);
                throw e;
              }
            });
  }

  /** Returns the address of the region in this process. */
  public long hostAddress() {
    return host;
  }

  /** Returns the address of the region on the device. */
  public long address() {
    return address;
  }

  /** Unpins it; before the range itself is unmapped. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      gpu.context().run(() -> CudaLibrary.unregisterHost(host, gpu));
    }
  }
}
