package org.nccl4j.device.cuda.driver;

import static org.nccl4j.device.cuda.driver.DriverLibrary.CUDA;

import java.lang.ref.Reference;
import java.nio.LongBuffer;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.bind.CudaDriver;
import org.nccl4j.device.bind.Offheap;

/**
 * Calls the driver to share a device's memory with other processes: physical memory through file
 * descriptors and, between hosts of one NVLink domain, through fabric handles; memory of cuMemAlloc
 * through CUDA IPC. A caller of {@link CudaDriver} beside {@link DriverLibrary}, under the same
 * conditions. Any thread may call.
 */
public final class SharingLibrary {
  /** CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR. */
  public static final int FILE_DESCRIPTOR = 1;

  /** CU_MEM_HANDLE_TYPE_FABRIC. */
  public static final int FABRIC = 8;

  /** Bytes of a CUmemFabricHandle. */
  static final int FABRIC_HANDLE_BYTES = 64;

  /** Bytes of a CUipcMemHandle. */
  public static final int IPC_HANDLE_BYTES = 64;

  private static final int HANDLE_TYPES = 4; // in CUmemAllocationProp
  private static final int RECOMMENDED = 1; // CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
  private static final int LAZY_PEER_ACCESS = 1; // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

  private SharingLibrary() {}

  /**
   * Returns the granularity of sizes and addresses of a device's shareable memory.
   *
   * @param types the handles that it is to have, of the constants above
   */
  public static long granularity(int device, int types, Object place) {
    Offheap out = new Offheap(8);
    Offheap prop = shareable(device, types);
    int code = CUDA.cuMemGetAllocationGranularity(out.address(), prop.address(), RECOMMENDED);
    Reference.reachabilityFence(prop);
    CudaResult.check(code, "cuMemGetAllocationGranularity", place);
    return out.getLong(0);
  }

  /**
   * Physical memory of a device that can be exported; a handle.
   *
   * @param types how, of the constants above
   * @param forCards whether network cards may be given it
   * @param place the device, whose memory that is being freed is awaited if need be
   */
  public static long createMemory(
      int device, long bytes, int types, boolean forCards, Object place) {
    Offheap out = new Offheap(8);
    Offheap prop = shareable(device, types);
    if (forCards) {
      prop.putInt(DriverLibrary.ALLOC_FLAGS, DriverLibrary.RDMA_CAPABLE);
    }
    return DeferredFree.allocating(
        place,
        () -> {
          int code = CUDA.cuMemCreate(out.address(), bytes, prop.address(), 0);
          Reference.reachabilityFence(prop);
          CudaResult.check(
              code,
              "cuMemCreate of "
                  + bytes
                  + " bytes"
                  + ((types & FABRIC) == 0 ? "" : " with a fabric handle"),
              place);
          return out.getLong(0);
        });
  }

  private static Offheap shareable(int device, int types) {
    return new Offheap(DriverLibrary.PROP_BYTES)
        .putInt(0, DriverLibrary.PINNED)
        .putInt(HANDLE_TYPES, types)
        .putInt(8, DriverLibrary.LOCATION_DEVICE)
        .putInt(12, device);
  }

  /** Returns the handle types that physical memory can be exported with, of the constants above. */
  public static int handleTypes(long handle, Object place) {
    Offheap prop = new Offheap(DriverLibrary.PROP_BYTES);
    CudaResult.check(
        CUDA.cuMemGetAllocationPropertiesFromHandle(prop.address(), handle),
        "cuMemGetAllocationPropertiesFromHandle",
        place);
    return prop.getInt(HANDLE_TYPES);
  }

  /** A file descriptor that another process can import; the caller closes it. */
  public static int exportFileDescriptor(long handle, Object place) {
    Offheap out = new Offheap(8);
    CudaResult.check(
        CUDA.cuMemExportToShareableHandle(out.address(), handle, FILE_DESCRIPTOR, 0),
        "cuMemExportToShareableHandle",
        place);
    return out.getInt(0);
  }

  /** A handle to memory that another process exported; the descriptor stays the caller's. */
  public static long importFileDescriptor(int descriptor, Object place) {
    Offheap out = new Offheap(8);
    CudaResult.check(
        CUDA.cuMemImportFromShareableHandle(out.address(), descriptor, FILE_DESCRIPTOR),
        "cuMemImportFromShareableHandle",
        place);
    return out.getLong(0);
  }

  /** Bytes by which processes of this and of other hosts import memory; nothing is to be closed. */
  public static byte[] exportFabricHandle(long handle, Object place) {
    Offheap out = new Offheap(FABRIC_HANDLE_BYTES);
    CudaResult.check(
        CUDA.cuMemExportToShareableHandle(out.address(), handle, FABRIC, 0),
        "cuMemExportToShareableHandle as a fabric handle",
        place);
    byte[] bytes = new byte[FABRIC_HANDLE_BYTES];
    out.bytes().get(0, bytes);
    return bytes;
  }

  /** A handle to memory that a process of this or of another host exported. */
  public static long importFabricHandle(byte[] exported, Object place) {
    if (exported.length != FABRIC_HANDLE_BYTES) {
      throw new InvalidArgumentException(
          ErrorId.BUFFER,
          "a fabric handle of " + exported.length + " bytes, which has " + FABRIC_HANDLE_BYTES,
          "pass what the owner exported");
    }
    Offheap out = new Offheap(8);
    Offheap in = new Offheap(FABRIC_HANDLE_BYTES);
    in.bytes().put(0, exported);
    int code = CUDA.cuMemImportFromShareableHandle(out.address(), in.address(), FABRIC);
    Reference.reachabilityFence(in);
    CudaResult.check(code, "cuMemImportFromShareableHandle of a fabric handle", place);
    return out.getLong(0);
  }

  /**
   * Returns the handle with which another process maps memory of cuMemAlloc. Needs the context to
   * be current.
   */
  public static byte[] ipcHandle(long address, Object place) {
    Offheap out = new Offheap(IPC_HANDLE_BYTES);
    CudaResult.check(CUDA.cuIpcGetMemHandle(out.address(), address), "cuIpcGetMemHandle", place);
    byte[] handle = new byte[IPC_HANDLE_BYTES];
    out.bytes().get(0, handle);
    return handle;
  }

  /** Maps what another process's handle stands for, for the current context; its address. */
  public static long openIpcHandle(byte[] handle, Object place) {
    Offheap out = new Offheap(8);
    Offheap in = new Offheap(IPC_HANDLE_BYTES);
    in.bytes().put(0, handle);
    int code = openIpcHandle(CUDA, System.getProperty("os.arch"), out, in);
    CudaResult.check(code, "cuIpcOpenMemHandle", place);
    return out.getLong(0);
  }

  /**
   * The call as C of an architecture makes it, with a structure of 64 bytes as an argument.
   *
   * @param architecture as the property os.arch has it
   */
  public static int openIpcHandle(CudaDriver cuda, String architecture, Offheap out, Offheap in) {
    try {
      return switch (architecture) {
        case "amd64", "x86_64" -> openByWords(cuda, out, in.bytes().asLongBuffer());
        case "aarch64" -> cuda.cuIpcOpenMemHandle_v2(out.address(), in.address(), LAZY_PEER_ACCESS);
        default ->
            throw new InvalidUsageException(
                ErrorId.UNSUPPORTED,
                "CUDA IPC handles cannot be opened on " + architecture,
                "set NCCL_P2P_DISABLE=1 to go through memory of the host");
      };
    } finally {
      Reference.reachabilityFence(in);
    }
  }

  private static int openByWords(CudaDriver cuda, Offheap out, LongBuffer words) {
    return cuda.cuIpcOpenMemHandle_v2(
        out.address(),
        LAZY_PEER_ACCESS,
        0,
        0,
        0,
        0,
        words.get(0),
        words.get(1),
        words.get(2),
        words.get(3),
        words.get(4),
        words.get(5),
        words.get(6),
        words.get(7));
  }

  public static void closeIpcHandle(long address, Object place) {
    CudaResult.check(CUDA.cuIpcCloseMemHandle(address), "cuIpcCloseMemHandle", place);
  }
}
