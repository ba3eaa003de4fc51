package org.nccl4j.device.cuda.memory;

import java.util.Optional;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.driver.SharingLibrary;
import org.nccl4j.device.symmetric.ShareableMemory;

/**
 * Physical memory of a GPU with a reference of its own; any code may have allocated it: another
 * library's memory is as good as ours if it is mapped and can be exported.
 */
public final class CudaAllocation implements ShareableMemory {
  private final Gpu gpu;
  private final long handle;
  private final long address;
  private final long size;
  private final int types;
  private boolean released;

  private CudaAllocation(Gpu gpu, long handle, long address, long size, int types) {
    this.gpu = gpu;
    this.handle = handle;
    this.address = address;
    this.size = size;
    this.types = types;
  }

  /** Returns the allocation at an address, or empty if it cannot be exported. */
  public static Optional<ShareableMemory> of(Gpu gpu, long address) {
    return gpu.context().get(() -> find(gpu, address));
  }

  private static Optional<ShareableMemory> find(Gpu gpu, long address) {
    long handle = DriverLibrary.retainMemory(address);
    if (handle == 0) {
      return Optional.empty();
    }
    try {
      int types = SharingLibrary.handleTypes(handle, gpu);
      if ((types & SharingLibrary.FILE_DESCRIPTOR) != 0) {
        long[] range = DriverLibrary.addressRange(address, gpu);
        return Optional.of(new CudaAllocation(gpu, handle, range[0], range[1], types));
      }
    } catch (RuntimeException e) {
      DriverLibrary.releaseMemory(handle, gpu);
      throw e;
    }
    DriverLibrary.releaseMemory(handle, gpu);
    return Optional.empty();
  }

  long handle() {
    return handle;
  }

  @Override
  public long number() {
    return handle;
  }

  @Override
  public long address() {
    return address;
  }

  @Override
  public long size() {
    return size;
  }

  @Override
  public int exportFileDescriptor() {
    return gpu.context().get(() -> SharingLibrary.exportFileDescriptor(handle, gpu));
  }

  @Override
  public Optional<byte[]> exportFabricHandle() {
    return (types & SharingLibrary.FABRIC) == 0
        ? Optional.empty()
        : Optional.of(gpu.context().get(() -> SharingLibrary.exportFabricHandle(handle, gpu)));
  }

  @Override
  public synchronized void release() {
    if (!released) {
      released = true;
      gpu.context().run(() -> DriverLibrary.releaseMemory(handle, gpu));
    }
  }
}
