package org.nccl4j.device.cuda.driver;

import java.lang.ref.Reference;
import java.util.List;
import java.util.Optional;
import java.util.function.IntSupplier;
import jcuda.driver.CUresult;
import org.nccl4j.device.bind.CudaDriver;
import org.nccl4j.device.bind.NativeLibrary;
import org.nccl4j.device.bind.NativeNames;
import org.nccl4j.device.bind.Offheap;

/**
 * The driver's functions for physical memory, launches and memory operations of streams, with
 * results checked; others are in {@link CudaLibrary} and, for memory that is shared with other
 * processes, {@link SharingLibrary}. Nobody else calls {@link CudaDriver}. To be touched only after
 * {@link DriverStart#absence()} answered that there is none. Any thread may call.
 */
public final class DriverLibrary {
  static final int PROP_BYTES = 32; // CUmemAllocationProp
  private static final int ACCESS_BYTES = 12; // CUmemAccessDesc
  static final int PINNED = 1; // CU_MEM_ALLOCATION_TYPE_PINNED
  static final int LOCATION_DEVICE = 1; // CU_MEM_LOCATION_TYPE_DEVICE
  private static final int LOCATION_HOST_NUMA = 3; // CU_MEM_LOCATION_TYPE_HOST_NUMA
  static final int RDMA_CAPABLE = 1 << 8; // allocFlags.gpuDirectRDMACapable, a byte at 25
  static final int ALLOC_FLAGS = 24; // in CUmemAllocationProp
  private static final int DMA_BUF = 1; // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
  public static final int MEMORY_OF_DEVICE = 2; // CU_MEMORYTYPE_DEVICE
  private static final int POINTER_MEMORY_TYPE = 2; // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
  private static final int POINTER_DEVICE = 3; // CU_POINTER_ATTRIBUTE_DEVICE_POINTER
  private static final int POINTER_HOST = 4; // CU_POINTER_ATTRIBUTE_HOST_POINTER
  private static final int POINTER_DEVICE_ORDINAL = 9; // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
  private static final int READ_WRITE = 3; // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
  private static final int WAIT_REACHED = 0; // CU_STREAM_WAIT_VALUE_GEQ
  private static final int MINIMUM = 0; // CU_MEM_ALLOC_GRANULARITY_MINIMUM

  /**
   * Held while a reference to physical memory is taken or given up, as a mapping is: where threads
   * did that at the same time, the driver (580.159 was seen to) freed what was in use, and its own
   * heap broke or cuMemUnmap crashed.
   */
  private static final Object REFERENCES = new Object();

  static final String FILE = "libcuda.so.1";

  public static final CudaDriver CUDA = NativeLibrary.load(CudaDriver.class, NativeNames.CUDA);

  private DriverLibrary() {}

  /** Binds the driver's functions, which takes a while the first time. */
  static void bind() {
    // Initialising this class has done it.
  }

  /** The calling thread's current context, or 0. */
  public static long currentContext(Offheap scratch) {
    CudaResult.check(
        CUDA.cuCtxGetCurrent(scratch.address()), "cuCtxGetCurrent", "the calling thread");
    return scratch.bytes().getLong(0);
  }

  public static void setCurrentContext(long context) {
    CudaResult.check(CUDA.cuCtxSetCurrent(context), "cuCtxSetCurrent", "the calling thread");
  }

  /**
   * Returns the granularity of sizes for {@link #createRdmaMemory} and {@link #createHostMemory}.
   */
  public static long rdmaGranularity(int device, int numa, Object place) {
    Offheap out = new Offheap(8);
    long most = 1;
    for (Offheap prop : List.of(rdmaCapable(device), ofHost(numa))) {
      int code = CUDA.cuMemGetAllocationGranularity(out.address(), prop.address(), MINIMUM);
      Reference.reachabilityFence(prop);
      CudaResult.check(code, "cuMemGetAllocationGranularity", place);
      most = Math.max(most, out.getLong(0));
    }
    return most;
  }

  /** Physical memory of a device that network cards may be given; a handle. */
  public static long createRdmaMemory(int device, long bytes, boolean shared, Object place) {
    return DeferredFree.allocating(
        place,
        () ->
            create(rdmaCapable(device), bytes, shared, "cuMemCreate of %d bytes for cards", place));
  }

  /** Pinned memory of the host, near a NUMA node; a handle. */
  public static long createHostMemory(int numa, long bytes, boolean shared, Object place) {
    return create(ofHost(numa), bytes, shared, "cuMemCreate of %d bytes of the host", place);
  }

  /** Shared: that can be exported as a file descriptor. */
  private static long create(Offheap prop, long bytes, boolean shared, String call, Object place) {
    Offheap out = new Offheap(8);
    prop.putInt(4, shared ? SharingLibrary.FILE_DESCRIPTOR : 0);
    int code = CUDA.cuMemCreate(out.address(), bytes, prop.address(), 0);
    Reference.reachabilityFence(prop);
    CudaResult.check(code, call.formatted(bytes), place);
    return out.getLong(0);
  }

  /** Lets a device, and the processor, read and write a mapped range of the host's memory. */
  public static void setHostAccess(long address, long bytes, int device, Object place) {
    Offheap access =
        new Offheap(2 * ACCESS_BYTES)
            .putInt(0, LOCATION_DEVICE)
            .putInt(4, device)
            .putInt(8, READ_WRITE)
            .putInt(ACCESS_BYTES, LOCATION_HOST_NUMA)
            .putInt(ACCESS_BYTES + 8, READ_WRITE);
    int code = CUDA.cuMemSetAccess(address, bytes, access.address(), 2);
    Reference.reachabilityFence(access);
    CudaResult.check(code, "cuMemSetAccess", place);
  }

  /** A dma-buf of a mapped range of a device's memory; the caller closes it. */
  public static int dmaBuf(long address, long bytes, Object place) {
    Offheap out = new Offheap(8);
    CudaResult.check(
        CUDA.cuMemGetHandleForAddressRange(out.address(), address, bytes, DMA_BUF, 0),
        "cuMemGetHandleForAddressRange of %d bytes".formatted(bytes),
        place);
    return out.getInt(0);
  }

  private static Offheap rdmaCapable(int device) {
    return new Offheap(PROP_BYTES)
        .putInt(0, PINNED)
        .putInt(8, LOCATION_DEVICE)
        .putInt(12, device)
        .putInt(ALLOC_FLAGS, RDMA_CAPABLE);
  }

  private static Offheap ofHost(int numa) {
    return new Offheap(PROP_BYTES).putInt(0, PINNED).putInt(8, LOCATION_HOST_NUMA).putInt(12, numa);
  }

  /** The code of a call that takes or gives up a reference to physical memory. */
  private static int counted(IntSupplier call) {
    synchronized (REFERENCES) {
      return call.getAsInt();
    }
  }

  public static void releaseMemory(long handle, Object place) {
    CudaResult.check(counted(() -> CUDA.cuMemRelease(handle)), "cuMemRelease", place);
  }

  public static long reserveAddress(long bytes, long alignment, Object place) {
    Offheap out = new Offheap(8);
    CudaResult.check(
        CUDA.cuMemAddressReserve(out.address(), bytes, alignment, 0, 0),
        "cuMemAddressReserve",
        place);
    return out.getLong(0);
  }

  public static void freeAddress(long address, long bytes, Object place) {
    CudaResult.check(CUDA.cuMemAddressFree(address, bytes), "cuMemAddressFree", place);
  }

  public static void map(long address, long bytes, long handle, Object place) {
    CudaResult.check(counted(() -> CUDA.cuMemMap(address, bytes, 0, handle, 0)), "cuMemMap", place);
  }

  public static void unmap(long address, long bytes, Object place) {
    CudaResult.check(counted(() -> CUDA.cuMemUnmap(address, bytes)), "cuMemUnmap", place);
  }

  /** Lets devices read and write a mapped range. */
  public static void setAccess(long address, long bytes, int[] devices, Object place) {
    Offheap access = new Offheap(ACCESS_BYTES * devices.length);
    for (int i = 0; i < devices.length; i++) {
      access.putInt(i * ACCESS_BYTES, LOCATION_DEVICE);
      access.putInt(i * ACCESS_BYTES + 4, devices[i]);
      access.putInt(i * ACCESS_BYTES + 8, READ_WRITE);
    }
    int code = CUDA.cuMemSetAccess(address, bytes, access.address(), devices.length);
    Reference.reachabilityFence(access);
    CudaResult.check(code, "cuMemSetAccess", place);
  }

  /**
   * One more reference to the physical memory behind an address, to be released; 0 where it is not
   * memory that was mapped, as that of cuMemAlloc is not.
   */
  public static long retainMemory(long address) {
    Offheap out = new Offheap(8);
    int code = counted(() -> CUDA.cuMemRetainAllocationHandle(out.address(), address));
    return code == 0 ? out.getLong(0) : 0;
  }

  /** Memory type of an address that the driver does not know. */
  public static final int UNKNOWN = 0;

  /** Returns the type of the memory at an address: {@link #UNKNOWN}, or a CUmemorytype. */
  public static int memoryType(long address, Object place) {
    return pointerAttribute(POINTER_MEMORY_TYPE, address, place);
  }

  /** The device whose memory is behind an address that the driver knows. */
  public static int deviceOf(long address, Object place) {
    return pointerAttribute(POINTER_DEVICE_ORDINAL, address, place);
  }

  /** Returns the host address of pinned memory. */
  public static long hostAddress(long address, Object place) {
    Offheap out = new Offheap(8);
    int code = CUDA.cuPointerGetAttribute(out.address(), POINTER_HOST, address);
    CudaResult.check(code, "cuPointerGetAttribute", place);
    return out.getLong(0);
  }

  /** Returns the address by which the current context's device reaches memory. */
  public static long deviceAddress(long address, Object place) {
    Offheap out = new Offheap(8);
    int code = CUDA.cuPointerGetAttribute(out.address(), POINTER_DEVICE, address);
    if (code == CUresult.CUDA_ERROR_INVALID_VALUE) {
      return address; // memory that the driver has not pinned, and the device reads all the same
    }
    CudaResult.check(code, "cuPointerGetAttribute", place);
    return out.getLong(0);
  }

  private static int pointerAttribute(int attribute, long address, Object place) {
    Offheap out = new Offheap(8);
    int code = CUDA.cuPointerGetAttribute(out.address(), attribute, address);
    if (code == CUresult.CUDA_ERROR_INVALID_VALUE) {
      return UNKNOWN;
    }
    CudaResult.check(code, "cuPointerGetAttribute", place);
    return out.getInt(0);
  }

  /** Returns the base address and the size in bytes of the allocation that contains an address. */
  public static long[] addressRange(long address, Object place) {
    Offheap out = new Offheap(16);
    CudaResult.check(
        CUDA.cuMemGetAddressRange_v2(out.address(), out.address() + 8, address),
        "cuMemGetAddressRange",
        place);
    return new long[] {out.getLong(0), out.getLong(8)};
  }

  /** A copy between any two addresses, in the current context. Neither allocates nor locks. */
  public static void copyAsync(long target, long source, long bytes, long stream, Object place) {
    CudaResult.check(CUDA.cuMemcpyAsync(target, source, bytes, stream), "cuMemcpyAsync", place);
  }

  /** The first driver that takes several copies in one call. */
  private static final int BATCH_DRIVER = 12080;

  /** The first driver whose call does not say which copy failed. */
  private static final int BATCH_DRIVER_2 = 13000;

  /** Why copies cannot be given to the driver in one call; empty where they can. */
  public static Optional<String> batchAbsence() {
    int version = CudaLibrary.driverVersion();
    return version >= BATCH_DRIVER
        ? Optional.empty()
        : Optional.of(
            "the driver is for CUDA %d.%d, and copies in batches need 12.8"
                .formatted(version / 1000, version % 1000 / 10));
  }

  /**
   * Copies that may go beside each other, in the current context. Neither allocates nor locks. Not
   * for the legacy default stream, nor while the stream is being captured.
   *
   * @param batch addresses of what cuMemcpyBatchAsync takes
   * @param driver its version
   */
  public static void copyBatchAsync(CopyBatch batch, int driver, long stream, Object place) {
    int code =
        driver >= BATCH_DRIVER_2
            ? CUDA.cuMemcpyBatchAsync_v2(
                batch.targets(),
                batch.sources(),
                batch.sizes(),
                batch.count(),
                batch.attributes(),
                batch.attributeIndices(),
                1,
                stream)
            : CUDA.cuMemcpyBatchAsync(
                batch.targets(),
                batch.sources(),
                batch.sizes(),
                batch.count(),
                batch.attributes(),
                batch.attributeIndices(),
                1,
                batch.failed(),
                stream);
    CudaResult.check(code, "cuMemcpyBatchAsync", place);
  }

  /**
   * The stream stores a word, after all that came before it in the stream and is seen by who sees
   * the word. Neither allocates nor locks.
   *
   * @param wide whether the word has 64 bits, and not 32
   */
  public static void streamWrite(
      long stream, long address, long value, boolean wide, Object place) {
    CudaResult.check(
        wide
            ? CUDA.cuStreamWriteValue64_v2(stream, address, value, 0)
            : CUDA.cuStreamWriteValue32_v2(stream, address, (int) value, 0),
        wide ? "cuStreamWriteValue64" : "cuStreamWriteValue32",
        place);
  }

  /**
   * The stream goes on when a word has reached a value, counted cyclically. Has no deadline: the
   * caller must be able to store the word. Neither allocates nor locks.
   */
  public static void streamWait(long stream, long address, long value, boolean wide, Object place) {
    CudaResult.check(
        wide
            ? CUDA.cuStreamWaitValue64_v2(stream, address, value, WAIT_REACHED)
            : CUDA.cuStreamWaitValue32_v2(stream, address, (int) value, WAIT_REACHED),
        wide ? "cuStreamWaitValue64" : "cuStreamWaitValue32",
        place);
  }

  /**
   * Launches a kernel. Neither allocates nor locks.
   *
   * @param config address of a CUlaunchConfig
   * @param parameters address of an array of addresses of the kernel's arguments
   */
  public static void launch(long config, long function, long parameters, Object place) {
    CudaResult.check(
        CUDA.cuLaunchKernelEx(config, function, parameters, 0), "cuLaunchKernelEx", place);
  }
}
