package org.nccl4j.device.cuda.memory;

import java.util.Optional;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.driver.GpuCleanup;
import org.nccl4j.device.cuda.driver.SharingLibrary;

/**
 * Memory of a GPU that other GPUs, of this process or of others, can map. Arenas are made of it.
 *
 * <p>Inside a process one mapping serves all devices: {@link #accessFrom} lets a device in and
 * returns its view, at the same address. Another process gets a file descriptor ({@link
 * #exportFileDescriptor}, sent over a Unix socket), or, also on another host of one NVLink domain,
 * a fabric handle ({@link #exportFabricHandle}), and maps it with {@code importFrom}. Sizes are
 * rounded up to {@link #granularity}. Any thread may call.
 */
public final class CudaShareableMemory implements SharedDeviceMemory {
  private final Gpu gpu;
  private final long size;
  private final long handle;
  private final long address;
  private final MemoryViews views;
  private boolean closed;

  private CudaShareableMemory(Gpu gpu, long size, long handle) {
    this.gpu = gpu;
    this.size = size;
    this.handle = handle;
    long reserved = 0;
    boolean mapped = false;
    try {
      long alignment = granularity(gpu);
      reserved = DriverLibrary.reserveAddress(size, alignment, gpu);
      DriverLibrary.map(reserved, size, handle, gpu);
      mapped = true;
      DriverLibrary.setAccess(reserved, size, new int[] {gpu.index()}, gpu);
    } catch (RuntimeException e) {
      release(reserved, mapped, e);
      throw e;
    }
    address = reserved;
    views = new MemoryViews(gpu, address, size);
  }

  /** Returns the granularity of sizes on a device, usually 2 MiB. */
  public static long granularity(Gpu gpu) {
    return gpu.context()
        .get(
            () ->
                gpu.fabricHandles()
                    .with(types -> SharingLibrary.granularity(gpu.index(), types, gpu)));
  }

  /**
   * New and zeroed memory of a device, of at least so many bytes; network cards may be given it if
   * the device allows that of any memory.
   */
  public static CudaShareableMemory create(Gpu gpu, long bytes) {
    long size = SharedDeviceMemory.blocks(bytes, granularity(gpu));
    return SharedDeviceMemory.zeroed(
        gpu.context().get(() -> new CudaShareableMemory(gpu, size, created(gpu, size))));
  }

  private static long created(Gpu gpu, long size) {
    boolean forCards = gpu.gpuDirect().absence().isEmpty();
    return gpu.fabricHandles()
        .with(types -> SharingLibrary.createMemory(gpu.index(), size, types, forCards, gpu));
  }

  /**
   * Memory that processes of other hosts can map, to try whether any can be had: later memory of
   * the device is made like it.
   *
   * @throws org.nccl4j.device.NcclException if the driver refuses, with its reason
   */
  public static CudaShareableMemory createForFabric(Gpu gpu) {
    gpu.fabricHandles().ask();
    CudaShareableMemory memory = create(gpu, 1);
    Optional<String> refused = gpu.fabricHandles().absence();
    if (refused.isPresent()) {
      memory.close();
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED, refused.get(), "look for an IMEX channel of this host");
    }
    return memory;
  }

  /**
   * Maps for a device what another process exported.
   *
   * @param gpu the importing device
   * @param descriptor as received; the caller closes it afterwards
   * @param bytes the exporter's {@link #size()}
   */
  public static CudaShareableMemory importFrom(Gpu gpu, int descriptor, long bytes) {
    return gpu.context()
        .get(
            () ->
                new CudaShareableMemory(
                    gpu, bytes, SharingLibrary.importFileDescriptor(descriptor, gpu)));
  }

  /**
   * Maps for a device what a process of this or of another host exported.
   *
   * @param gpu the importing device, of the exporter's NVLink domain
   * @param fabricHandle as {@link #exportFabricHandle} gave it
   * @param bytes the exporter's {@link #size()}
   */
  public static CudaShareableMemory importFrom(Gpu gpu, byte[] fabricHandle, long bytes) {
    return gpu.context()
        .get(
            () ->
                new CudaShareableMemory(
                    gpu, bytes, SharingLibrary.importFabricHandle(fabricHandle, gpu)));
  }

  /** The driver's handle; it stays this memory's. */
  long handle() {
    return handle;
  }

  /** Bytes, a multiple of the granularity. */
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
    return views.from(
        peer,
        () -> {
          peer.context(); // a device without a context cannot be given access
          DriverLibrary.setAccess(address, size, new int[] {peer.index()}, peer);
        });
  }

  /** A new file descriptor for another process; the caller closes it. */
  public int exportFileDescriptor() {
    return gpu.context().get(() -> SharingLibrary.exportFileDescriptor(handle, gpu));
  }

  /**
   * Bytes by which processes of this and of other hosts map it; nothing is to be closed.
   *
   * @throws org.nccl4j.device.CudaException if it has no fabric handle, or the driver refuses
   */
  public byte[] exportFabricHandle() {
    return gpu.context().get(() -> SharingLibrary.exportFabricHandle(handle, gpu));
  }

  /** Unmaps it here; the memory lives on while another process has it mapped. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      gpu.context().run(() -> release(address, true, null));
    }
  }

  /** Undoes all steps that were done; failures are added to the cause, if there is one. */
  private void release(long reserved, boolean mapped, RuntimeException cause) {
    GpuCleanup undo = new GpuCleanup(gpu);
    undo.push(() -> DriverLibrary.releaseMemory(handle, gpu));
    if (reserved != 0) {
      undo.push(() -> DriverLibrary.freeAddress(reserved, size, gpu));
    }
    if (mapped) {
      undo.push(() -> DriverLibrary.unmap(reserved, size, gpu));
    }
    try {
      undo.run();
    } catch (RuntimeException e) {
      if (cause == null) {
        throw e;
      }
      cause.addSuppressed(e);
    }
  }
}
