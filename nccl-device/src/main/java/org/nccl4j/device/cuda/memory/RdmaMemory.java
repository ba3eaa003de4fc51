package org.nccl4j.device.cuda.memory;

import java.lang.invoke.VarHandle;
import java.util.List;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.bind.NativeWords;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.driver.GpuCleanup;
import org.nccl4j.device.cuda.driver.SharingLibrary;
import org.nccl4j.device.shm.OwnedFd;

/**
 * Memory for what a kernel shares with the processor and with a network card: pinned memory of the
 * host and, behind it in one range of addresses, memory of the GPU that the card may be given. A
 * kernel needs one address for both.
 *
 * <p>It can be mapped several times; every {@link Range} shows the same memory at addresses of its
 * own. Any thread may call.
 */
public final class RdmaMemory implements AutoCloseable {
  private static final int TRIAL = 8;
  private static final long PATTERN = 0x5ca1ab1ef00dfeedL;
  private static final int HOST_NUMA_ID = 134; // CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID

  private final Gpu gpu;
  private final long hostBytes;
  private final long gpuBytes;
  private final long alignment;
  private long hostHandle;
  private long gpuHandle;
  private boolean closed;

  private RdmaMemory(Gpu gpu, long hostBytes, long gpuBytes, boolean shared) {
    this.gpu = gpu;
    int numa = Math.max(0, gpu.attribute(HOST_NUMA_ID));
    alignment = DriverLibrary.rdmaGranularity(gpu.index(), numa, gpu);
    this.hostBytes = rounded(hostBytes);
    this.gpuBytes = rounded(gpuBytes);
    hostHandle = DriverLibrary.createHostMemory(numa, this.hostBytes, shared, gpu);
    try {
      gpuHandle = DriverLibrary.createRdmaMemory(gpu.index(), this.gpuBytes, shared, gpu);
    } catch (RuntimeException e) {
      undo(e, () -> DriverLibrary.releaseMemory(hostHandle, gpu));
      throw e;
    }
  }

  /** Maps memory of another owner. */
  private RdmaMemory(Gpu gpu, Shared shared, int hostDescriptor, int gpuDescriptor) {
    this.gpu = gpu;
    alignment = shared.alignment;
    hostBytes = shared.hostBytes;
    gpuBytes = shared.gpuBytes;
    hostHandle = SharingLibrary.importFileDescriptor(hostDescriptor, gpu);
    try {
      gpuHandle = SharingLibrary.importFileDescriptor(gpuDescriptor, gpu);
    } catch (RuntimeException e) {
      undo(e, () -> DriverLibrary.releaseMemory(hostHandle, gpu));
      throw e;
    }
  }

  /**
   * Facts that another GPU, perhaps of another process, needs to map shared memory, besides its two
   * file descriptors.
   *
   * @param hostBytes of the host
   * @param gpuBytes of the GPU
   * @param alignment of addresses
   */
  public record Shared(long hostBytes, long gpuBytes, long alignment) {}

  private long rounded(long bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  }

  /**
   * New memory, mapped nowhere. It has been tried: the GPU reads what the processor writes into its
   * part, and the other way. Its contents are not set.
   *
   * @param hostBytes least bytes of the host
   * @param gpuBytes least bytes of the GPU
   * @throws CudaException if the driver does not give it, or it is not what it should be; nothing
   *     is taken then
   */
  public static RdmaMemory create(Gpu gpu, long hostBytes, long gpuBytes) {
    return create(gpu, hostBytes, gpuBytes, false);
  }

  /**
   * Same as {@link #create}, but other GPUs of this host can map the memory too, through {@link
   * #export}.
   */
  public static RdmaMemory createShared(Gpu gpu, long hostBytes, long gpuBytes) {
    return create(gpu, hostBytes, gpuBytes, true);
  }

  private static RdmaMemory create(Gpu gpu, long hostBytes, long gpuBytes, boolean shared) {
    if (hostBytes <= 0 || gpuBytes <= 0) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "memory of %d bytes of the host and %d of a GPU is requested"
              .formatted(hostBytes, gpuBytes),
          "ask for 1 byte or more of each");
    }
    RdmaMemory made = gpu.context().get(() -> new RdmaMemory(gpu, hostBytes, gpuBytes, shared));
    try (Range trial = made.map()) {
      trial.check();
      return made;
    } catch (RuntimeException e) {
      undo(e, made::close);
      throw e;
    }
  }

  /**
   * Memory that is shared, for another GPU than that whose it is.
   *
   * @param gpu the other, which reaches the GPU whose memory it is
   * @param hostDescriptor as received; the caller closes it afterwards
   * @param gpuDescriptor likewise
   * @throws CudaException if the driver does not map it, or it is not what it should be
   */
  public static RdmaMemory importFrom(
      Gpu gpu, Shared shared, int hostDescriptor, int gpuDescriptor) {
    return gpu.context().get(() -> new RdmaMemory(gpu, shared, hostDescriptor, gpuDescriptor));
  }

  /** Returns the facts that another GPU needs to map the memory. */
  public Shared shared() {
    return new Shared(hostBytes, gpuBytes, alignment);
  }

  /**
   * File descriptors of the host's part and of the GPU's, if it was made to be shared; the caller
   * closes them.
   */
  public List<OwnedFd> export() {
    OwnedFd first = exported(hostHandle);
    try {
      return List.of(first, exported(gpuHandle));
    } catch (RuntimeException e) {
      first.close();
      throw e;
    }
  }

  private OwnedFd exported(long handle) {
    return new OwnedFd(gpu.context().get(() -> SharingLibrary.exportFileDescriptor(handle, gpu)));
  }

  /** Bytes of the GPU's memory. */
  public long gpuBytes() {
    return gpuBytes;
  }

  /**
   * Maps it once more.
   *
   * @throws CudaException if the driver does not; nothing is mapped then
   */
  public synchronized Range map() {
    if (closed) {
      throw new InvalidUsageException(
          ErrorId.CLOSED, "memory for NICs is mapped after close", "map it before");
    }
    return gpu.context().get(Range::new);
  }

  /** The memory at addresses of its own. */
  public final class Range implements AutoCloseable {
    private final GpuCleanup undo = new GpuCleanup(gpu);
    private final long boundary;
    private boolean unmapped;

    private Range() {
      long bytes = hostBytes + gpuBytes;
      try {
        long begin = DriverLibrary.reserveAddress(bytes, alignment, gpu);
        undo.push(() -> DriverLibrary.freeAddress(begin, bytes, gpu));
        boundary = begin + hostBytes;
        DriverLibrary.map(begin, hostBytes, hostHandle, gpu);
        undo.push(() -> DriverLibrary.unmap(begin, hostBytes, gpu));
        DriverLibrary.setHostAccess(begin, hostBytes, gpu.index(), gpu);
        DriverLibrary.map(boundary, gpuBytes, gpuHandle, gpu);
        undo.push(() -> DriverLibrary.unmap(boundary, gpuBytes, gpu));
        DriverLibrary.setAccess(boundary, gpuBytes, new int[] {gpu.index()}, gpu);
      } catch (RuntimeException e) {
        undo(e, undo::run);
        throw e;
      }
    }

    /**
     * Returns the offset at which the host's part ends and the GPU's part begins. The processor
     * reaches only the host's part.
     */
    public long boundary() {
      return boundary;
    }

    /** Has the GPU take words from the host's part to its own and back, elsewhere. */
    private void check() {
      NativeWords words = new NativeWords(boundary - 2 * TRIAL);
      words.putLong(0, 0);
      words.putLong(TRIAL, PATTERN);
      VarHandle.fullFence();
      gpu.context().run(this::copyThereAndBack);
      VarHandle.fullFence();
      if (words.getLong(0) != PATTERN) {
        throw new CudaException(
            "%s and the processor see different memory where both kinds are mapped side by side"
                .formatted(gpu),
            "update NVIDIA's driver");
      }
    }

    private void copyThereAndBack() {
      long stream = CudaLibrary.createStream(gpu);
      try {
        DriverLibrary.copyAsync(boundary, boundary - TRIAL, TRIAL, stream, gpu);
        DriverLibrary.copyAsync(boundary - 2 * TRIAL, boundary, TRIAL, stream, gpu);
        CudaLibrary.synchronizeStream(stream, gpu);
      } finally {
        CudaLibrary.destroyStream(stream, gpu);
      }
    }

    /** A part as the GPU sees it, by its offset from the boundary, which may be negative. */
    public DeviceMemory seen(long offset, long bytes) {
      return CudaMemory.wrap(gpu, boundary + offset, bytes);
    }

    /**
     * A dma-buf of the GPU's memory, all of it.
     *
     * @throws CudaException if the driver makes none
     */
    public OwnedFd exportDmaBuf() {
      return new OwnedFd(gpu.context().get(() -> DriverLibrary.dmaBuf(boundary, gpuBytes, gpu)));
    }

    /** Unmaps it: when neither kernels nor cards use it any more. Again does nothing. */
    @Override
    public synchronized void close() {
      if (!unmapped) {
        unmapped = true;
        undo.run();
      }
    }
  }

  /** Undoes after a failure, to which another is added. */
  private static void undo(RuntimeException cause, Runnable steps) {
    try {
      steps.run();
    } catch (RuntimeException e) {
      cause.addSuppressed(e);
    }
  }

  /** Gives it up; it lives on while it is mapped. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      GpuCleanup both = new GpuCleanup(gpu);
      both.push(() -> DriverLibrary.releaseMemory(hostHandle, gpu));
      both.push(() -> DriverLibrary.releaseMemory(gpuHandle, gpu));
      both.run();
    }
  }
}
