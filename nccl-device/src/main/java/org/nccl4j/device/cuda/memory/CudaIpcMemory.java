package org.nccl4j.device.cuda.memory;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.cuda.driver.CudaContext;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.driver.SharingLibrary;

/**
 * Memory of a GPU as cuMemAlloc gives it, for drivers and devices that cannot share physical memory
 * by descriptor ({@code MemorySharing.absence}): other devices of the process get at it by
 * cuCtxEnablePeerAccess, other processes by a handle of cuIpcGetMemHandle. It cannot be part of a
 * flat range. An importer must close it before its owner does.
 */
public final class CudaIpcMemory implements SharedDeviceMemory {
  /** A block of its own for each, so that a handle gives nothing else away. */
  private static final long BLOCK = 2 << 20;

  private final Gpu gpu;
  private final long size;
  private final long address;
  private final boolean imported;
  private final MemoryViews views;
  private boolean closed;

  private CudaIpcMemory(Gpu gpu, long size, long address, boolean imported) {
    this.gpu = gpu;
    this.size = size;
    this.address = address;
    this.imported = imported;
    this.views = new MemoryViews(gpu, address, size);
  }

  /** New and zeroed memory of a device, of at least so many bytes. */
  public static CudaIpcMemory create(Gpu gpu, long bytes) {
    long size = SharedDeviceMemory.blocks(bytes, BLOCK);
    long address = gpu.context().get(() -> CudaLibrary.allocate(size, gpu));
    return SharedDeviceMemory.zeroed(new CudaIpcMemory(gpu, size, address, false));
  }

  /**
   * Maps for a device what another process has.
   *
   * @param handle the owner's {@link #handle}
   * @param bytes the owner's {@link #size}
   */
  public static CudaIpcMemory importFrom(Gpu gpu, byte[] handle, long bytes) {
    if (handle.length != SharingLibrary.IPC_HANDLE_BYTES) {
      throw new InvalidArgumentException(
          ErrorId.BUFFER,
          "a CUDA IPC handle of %d bytes, which has %d"
              .formatted(handle.length, SharingLibrary.IPC_HANDLE_BYTES),
          "pass what the owner's handle() gave");
    }
    long address = gpu.context().get(() -> SharingLibrary.openIpcHandle(handle, gpu));
    return new CudaIpcMemory(gpu, bytes, address, true);
  }

  /** Returns the handle with which another process maps the memory. */
  public byte[] handle() {
    return gpu.context().get(() -> SharingLibrary.ipcHandle(address, gpu));
  }

  @Override
  public long size() {
    return size;
  }

  @Override
  public DeviceMemory local() {
    return views.local();
  }

  @Override
  public DeviceMemory accessFrom(Gpu peer) {
    CudaContext owner = gpu.context();
    return views.from(
        peer, () -> peer.context().run(() -> CudaLibrary.enablePeerAccess(owner.handle(), peer)));
  }

  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      gpu.context()
          .run(
              () -> {
                if (imported) {
                  SharingLibrary.closeIpcHandle(address, gpu);
                } else {
                  CudaLibrary.free(address, gpu);
                }
              });
    }
  }
}
