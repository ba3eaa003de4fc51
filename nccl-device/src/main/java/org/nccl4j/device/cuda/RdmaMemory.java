package org.nccl4j.device.cuda;

import java.lang.invoke.VarHandle;
import java.util.List;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
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

  private final CudaDevice device;
  private final long hostBytes;
  private final long gpuBytes;
  private final long alignment;
  private long host;
  private long gpu;
  private boolean closed;

  private RdmaMemory(CudaDevice device, long hostBytes, long gpuBytes, boolean shared) {
    this.device = device;
    int numa = Math.max(0, device.attribute(HOST_NUMA_ID));
    alignment = DriverLibrary.rdmaGranularity(device.index(), numa, device);
    this.hostBytes = rounded(hostBytes);
    this.gpuBytes = rounded(gpuBytes);
    host = DriverLibrary.createHostMemory(numa, this.hostBytes, shared, device);
    try {
      gpu = DriverLibrary.createRdmaMemory(device.index(), this.gpuBytes, shared, device);
    } catch (RuntimeException e) {
      undo(e, () -> DriverLibrary.releaseMemory(host, device));
      throw e;
    }
  }

  /** Of another owner. */
  private RdmaMemory(CudaDevice device, Shared shared, int hostDescriptor, int gpuDescriptor) {
    this.device = device;
    alignment = shared.alignment;
    hostBytes = shared.hostBytes;
    gpuBytes = shared.gpuBytes;
    host = SharingLibrary.importFileDescriptor(hostDescriptor, device);
    try {
      gpu = SharingLibrary.importFileDescriptor(gpuDescriptor, device);
    } catch (RuntimeException e) {
      undo(e, () -> DriverLibrary.releaseMemory(host, device));
      throw e;
    }
  }

  /**
   * What another GPU, perhaps of another process, has to know of shared memory beside its two file
   * descriptors.
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
  public static RdmaMemory create(CudaDevice device, long hostBytes, long gpuBytes) {
    return create(device, hostBytes, gpuBytes, false);
  }

  /** As {@link #create}, of memory that other GPUs of this host can map too, by {@link #export}. */
  public static RdmaMemory createShared(CudaDevice device, long hostBytes, long gpuBytes) {
    return create(device, hostBytes, gpuBytes, true);
  }

  private static RdmaMemory create(
      CudaDevice device, long hostBytes, long gpuBytes, boolean shared) {
    if (hostBytes <= 0 || gpuBytes <= 0) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "memory of %d bytes of the host and %d of a GPU".formatted(hostBytes, gpuBytes),
          "ask for 1 byte or more of each");
    }
    RdmaMemory made =
        device.context().get(() -> new RdmaMemory(device, hostBytes, gpuBytes, shared));
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
   * @param device the other, which reaches the GPU whose memory it is
   * @param hostDescriptor as received; the caller closes it afterwards
   * @param gpuDescriptor likewise
   * @throws CudaException if the driver does not map it, or it is not what it should be
   */
  public static RdmaMemory importFrom(
      CudaDevice device, Shared shared, int hostDescriptor, int gpuDescriptor) {
    return device
        .context()
        .get(() -> new RdmaMemory(device, shared, hostDescriptor, gpuDescriptor));
  }

  /** What another GPU has to know of it. */
  public Shared shared() {
    return new Shared(hostBytes, gpuBytes, alignment);
  }

  /**
   * File descriptors of the host's part and of the GPU's, if it was made to be shared; the caller
   * closes them.
   */
  public List<OwnedFd> export() {
    OwnedFd first = exported(host);
    try {
      return List.of(first, exported(gpu));
    } catch (RuntimeException e) {
      first.close();
      throw e;
    }
  }

  private OwnedFd exported(long handle) {
    return new OwnedFd(
        device.context().get(() -> SharingLibrary.exportFileDescriptor(handle, device)));
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
          ErrorId.CLOSED, "memory for network cards is mapped after close", "map it before");
    }
    return device.context().get(Range::new);
  }

  /** The memory at addresses of its own. */
  public final class Range implements AutoCloseable {
    private final Undo undo = new Undo(device);
    private final long boundary;
    private boolean unmapped;

    private Range() {
      long bytes = hostBytes + gpuBytes;
      try {
        long begin = DriverLibrary.reserveAddress(bytes, alignment, device);
        undo.push(() -> DriverLibrary.freeAddress(begin, bytes, device));
        boundary = begin + hostBytes;
        DriverLibrary.map(begin, hostBytes, host, device);
        undo.push(() -> DriverLibrary.unmap(begin, hostBytes, device));
        DriverLibrary.setHostAccess(begin, hostBytes, device.index(), device);
        DriverLibrary.map(boundary, gpuBytes, gpu, device);
        undo.push(() -> DriverLibrary.unmap(boundary, gpuBytes, device));
        DriverLibrary.setAccess(boundary, gpuBytes, new int[] {device.index()}, device);
      } catch (RuntimeException e) {
        undo(e, undo::run);
        throw e;
      }
    }

    /**
     * Where the host's memory ends and the GPU's begins; the same for the processor, which reaches
     * only what is before it.
     */
    public long boundary() {
      return boundary;
    }

    /** Has the GPU take words from the host's part to its own and back, elsewhere. */
    private void check() {
      Pointer words = Pointer.wrap(Runtime.getSystemRuntime(), boundary - 2 * TRIAL, 2 * TRIAL);
      words.putLong(0, 0);
      words.putLong(TRIAL, PATTERN);
      VarHandle.fullFence();
      try (CudaStream stream = (CudaStream) device.createStream()) {
        device
            .context()
            .run(
                () -> {
                  long to = stream.handle();
                  DriverLibrary.copyAsync(boundary, boundary - TRIAL, TRIAL, to, device);
                  DriverLibrary.copyAsync(boundary - 2 * TRIAL, boundary, TRIAL, to, device);
                });
        stream.synchronize();
      }
      VarHandle.fullFence();
      if (words.getLong(0) != PATTERN) {
        throw new CudaException(
            "%s sees other memory than the processor where both kinds are mapped side by side"
                .formatted(device),
            "update NVIDIA's driver");
      }
    }

    /** A part as the GPU sees it, by its offset from the boundary, which may be negative. */
    public DeviceMemory seen(long offset, long bytes) {
      return CudaMemory.wrap(device, boundary + offset, bytes);
    }

    /**
     * A dma-buf of the GPU's memory, all of it.
     *
     * @throws CudaException if the driver makes none
     */
    public OwnedFd exportDmaBuf() {
      return new OwnedFd(
          device.context().get(() -> DriverLibrary.dmaBuf(boundary, gpuBytes, device)));
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
      Undo both = new Undo(device);
      both.push(() -> DriverLibrary.releaseMemory(host, device));
      both.push(() -> DriverLibrary.releaseMemory(gpu, device));
      both.run();
    }
  }
}
