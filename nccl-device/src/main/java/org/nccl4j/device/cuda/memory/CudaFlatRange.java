package org.nccl4j.device.cuda.memory;

import java.util.Map;
import java.util.TreeMap;
import java.util.function.LongSupplier;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.driver.SharingLibrary;
import org.nccl4j.device.symmetric.FlatRange;
import org.nccl4j.device.symmetric.ShareableMemory;

/** A flat range of a GPU's addresses. */
public final class CudaFlatRange implements FlatRange {
  private static final long STRIDE_UNIT = 1L << 32; // kernels count strides in units of 4 GiB

  private final Gpu gpu;
  private final long address;
  private final long bytes;
  private final long stride;
  private final Map<Long, Long> mapped = new TreeMap<>();
  private boolean closed;

  private CudaFlatRange(Gpu gpu, long address, long bytes, long stride) {
    this.gpu = gpu;
    this.address = address;
    this.bytes = bytes;
    this.stride = stride;
  }

  /** A stretch for a device with so much memory. */
  public static long stride(long memory) {
    return (memory + STRIDE_UNIT - 1) / STRIDE_UNIT * STRIDE_UNIT;
  }

  public static CudaFlatRange reserve(Gpu gpu, int team, long wanted) {
    long stride = stride(wanted);
    long bytes = Math.multiplyExact(team, stride);
    long alignment = CudaShareableMemory.granularity(gpu);
    long address = gpu.context().get(() -> DriverLibrary.reserveAddress(bytes, alignment, gpu));
    return new CudaFlatRange(gpu, address, bytes, stride);
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
  public DeviceMemory map(int place, long offset, ShareableMemory allocation) {
    if (!(allocation instanceof CudaAllocation cuda)) {
      throw new InternalErrorException(
          "%s is mapped on %s".formatted(allocation, gpu), "report this defect");
    }
    return gpu.context().get(() -> map(place, offset, cuda.handle(), cuda.size()));
  }

  @Override
  public DeviceMemory map(int place, long offset, int descriptor, long size) {
    return map(place, offset, () -> SharingLibrary.importFileDescriptor(descriptor, gpu), size);
  }

  @Override
  public DeviceMemory map(int place, long offset, byte[] fabricHandle, long size) {
    return map(place, offset, () -> SharingLibrary.importFabricHandle(fabricHandle, gpu), size);
  }

  private DeviceMemory map(int place, long offset, LongSupplier importing, long size) {
    return gpu.context()
        .get(
            () -> {
              long handle = importing.getAsLong();
              try {
                return map(place, offset, handle, size);
              } finally {
                DriverLibrary.releaseMemory(handle, gpu); // the mapping keeps the memory
              }
            });
  }

  private DeviceMemory map(int place, long offset, long handle, long size) {
    long at = address + place * stride + offset;
    DriverLibrary.map(at, size, handle, gpu);
    try {
      DriverLibrary.setAccess(at, size, new int[] {gpu.index()}, gpu);
    } catch (RuntimeException e) {
      DriverLibrary.unmap(at, size, gpu);
      throw e;
    }
    mapped.put(at, size);
    return CudaMemory.wrap(gpu, at, size);
  }

  @Override
  public void unmap(int place, long offset, long size) {
    long at = address + place * stride + offset;
    mapped.remove(at);
    gpu.context().run(() -> DriverLibrary.unmap(at, size, gpu));
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      gpu.context()
          .run(
              () -> {
                mapped.forEach((at, size) -> DriverLibrary.unmap(at, size, gpu));
                DriverLibrary.freeAddress(address, bytes, gpu);
              });
      mapped.clear();
    }
  }
}
