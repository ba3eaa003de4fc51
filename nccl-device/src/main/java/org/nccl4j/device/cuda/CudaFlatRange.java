package org.nccl4j.device.cuda;

import java.util.Map;
import java.util.TreeMap;
import java.util.function.LongSupplier;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.symmetric.Exportable;
import org.nccl4j.device.symmetric.FlatRange;

/** A flat range of a GPU's addresses. */
final class CudaFlatRange implements FlatRange {
  private static final long STRIDE_UNIT = 1L << 32; // kernels count strides in units of 4 GiB

  private final CudaDevice device;
  private final long address;
  private final long bytes;
  private final long stride;
  private final Map<Long, Long> mapped = new TreeMap<>();
  private boolean closed;

  private CudaFlatRange(CudaDevice device, long address, long bytes, long stride) {
    this.device = device;
    this.address = address;
    this.bytes = bytes;
    this.stride = stride;
  }

  /** A stretch for a device with so much memory. */
  static long stride(long memory) {
    return (memory + STRIDE_UNIT - 1) / STRIDE_UNIT * STRIDE_UNIT;
  }

  static CudaFlatRange reserve(CudaDevice device, int team, long wanted) {
    long stride = stride(wanted);
    long bytes = Math.multiplyExact(team, stride);
    long alignment = CudaShareableMemory.granularity(device);
    long address =
        device.context().get(() -> DriverLibrary.reserveAddress(bytes, alignment, device));
    return new CudaFlatRange(device, address, bytes, stride);
  }

  @Override
  public long address() {
    return address;
  }

  @Override
  public long stride() {
    return stride;
  }

  @Override
  public DeviceMemory map(int place, long offset, Exportable allocation) {
    if (!(allocation instanceof CudaAllocation cuda)) {
      throw new InternalErrorException(
          "%s is mapped on %s".formatted(allocation, device), "report this defect");
    }
    return device.context().get(() -> map(place, offset, cuda.handle(), cuda.size()));
  }

  @Override
  public DeviceMemory map(int place, long offset, int descriptor, long size) {
    return map(place, offset, () -> SharingLibrary.importFileDescriptor(descriptor, device), size);
  }

  @Override
  public DeviceMemory map(int place, long offset, byte[] fabricHandle, long size) {
    return map(place, offset, () -> SharingLibrary.importFabricHandle(fabricHandle, device), size);
  }

  private DeviceMemory map(int place, long offset, LongSupplier importing, long size) {
    return device
        .context()
        .get(
            () -> {
              long handle = importing.getAsLong();
              try {
                return map(place, offset, handle, size);
              } finally {
                DriverLibrary.releaseMemory(handle, device); // the mapping keeps the memory
              }
            });
  }

  private DeviceMemory map(int place, long offset, long handle, long size) {
    long at = address + place * stride + offset;
    DriverLibrary.map(at, size, handle, device);
    try {
      DriverLibrary.setAccess(at, size, new int[] {device.index()}, device);
    } catch (RuntimeException e) {
      DriverLibrary.unmap(at, size, device);
      throw e;
    }
    mapped.put(at, size);
    return CudaMemory.wrap(device, at, size);
  }

  @Override
  public void unmap(int place, long offset, long size) {
    long at = address + place * stride + offset;
    mapped.remove(at);
    device.context().run(() -> DriverLibrary.unmap(at, size, device));
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      device
          .context()
          .run(
              () -> {
                mapped.forEach((at, size) -> DriverLibrary.unmap(at, size, device));
                DriverLibrary.freeAddress(address, bytes, device);
              });
      mapped.clear();
    }
  }
}
