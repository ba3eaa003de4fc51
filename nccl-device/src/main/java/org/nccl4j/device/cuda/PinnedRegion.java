package org.nccl4j.device.cuda;

/**
 * A range of the host's memory that a GPU loads from and stores to, pinned while this is open: how
 * GPUs share memory that cannot reach each other's. Any thread may call.
 */
public final class PinnedRegion implements AutoCloseable {
  private final CudaDevice device;
  private final long host;
  private final long address;
  private boolean closed;

  private PinnedRegion(CudaDevice device, long host, long address) {
    this.device = device;
    this.host = host;
    this.address = address;
  }

  /**
   * Pins a range.
   *
   * @param host its address, a multiple of a page
   * @throws org.nccl4j.device.CudaException if the driver does not take it; nothing is pinned then
   */
  public static PinnedRegion of(CudaDevice device, long host, long bytes) {
    return device
        .context()
        .get(
            () -> {
              CudaLibrary.registerHost(host, bytes, device);
              try {
                return new PinnedRegion(device, host, CudaLibrary.hostDeviceAddress(host, device));
              } catch (RuntimeException e) {
                CudaLibrary.unregisterHost(host, device);
                throw e;
              }
            });
  }

  /** Where the process sees it. */
  public long hostAddress() {
    return host;
  }

  /** Where the device sees it. */
  public long address() {
    return address;
  }

  /** Unpins it; before the range itself is unmapped. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      device.context().run(() -> CudaLibrary.unregisterHost(host, device));
    }
  }
}
