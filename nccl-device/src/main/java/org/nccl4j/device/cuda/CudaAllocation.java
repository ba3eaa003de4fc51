package org.nccl4j.device.cuda;

import java.util.Optional;
import org.nccl4j.device.symmetric.Exportable;

/**
 * Physical memory of a GPU, whoever allocated it, with a reference of its own: another library's
 * memory is as good as ours if it is mapped and can be exported.
 */
final class CudaAllocation implements Exportable {
  private final CudaDevice device;
  private final long handle;
  private final long address;
  private final long size;
  private final int types;
  private boolean released;

  private CudaAllocation(CudaDevice device, long handle, long address, long size, int types) {
    this.device = device;
    this.handle = handle;
    this.address = address;
    this.size = size;
    this.types = types;
  }

  /** What lies behind an address; empty where that cannot be exported. */
  static Optional<Exportable> of(CudaDevice device, long address) {
    return device.context().get(() -> find(device, address));
  }

  private static Optional<Exportable> find(CudaDevice device, long address) {
    long handle = DriverLibrary.retainMemory(address);
    if (handle == 0) {
      return Optional.empty();
    }
    try {
      int types = SharingLibrary.handleTypes(handle, device);
      if ((types & SharingLibrary.FILE_DESCRIPTOR) != 0) {
        long[] range = DriverLibrary.addressRange(address, device);
        return Optional.of(new CudaAllocation(device, handle, range[0], range[1], types));
      }
    } catch (RuntimeException e) {
      DriverLibrary.releaseMemory(handle, device);
      throw e;
    }
    DriverLibrary.releaseMemory(handle, device);
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
    return device.context().get(() -> SharingLibrary.exportFileDescriptor(handle, device));
  }

  @Override
  public Optional<byte[]> exportFabricHandle() {
    return (types & SharingLibrary.FABRIC) == 0
        ? Optional.empty()
        : Optional.of(
            device.context().get(() -> SharingLibrary.exportFabricHandle(handle, device)));
  }

  @Override
  public synchronized void release() {
    if (!released) {
      released = true;
      device.context().run(() -> DriverLibrary.releaseMemory(handle, device));
    }
  }
}
