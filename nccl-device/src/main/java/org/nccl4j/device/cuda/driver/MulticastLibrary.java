package org.nccl4j.device.cuda.driver;

import java.lang.ref.Reference;
import org.nccl4j.device.bind.CudaMulticast;
import org.nccl4j.device.bind.NativeLibrary;
import org.nccl4j.device.bind.NativeNames;
import org.nccl4j.device.bind.Offheap;

/**
 * The only caller of {@link CudaMulticast}, with results checked. Used by {@code DriverMulticast}
 * alone, which exists only where the user's settings allow it.
 */
public final class MulticastLibrary {
  private static final int PROP_BYTES = 32; // CUmulticastObjectProp
  private static final int MINIMUM_GRANULARITY = 0; // CU_MULTICAST_GRANULARITY_MINIMUM

  private static final CudaMulticast CUDA =
      NativeLibrary.load(CudaMulticast.class, NativeNames.CUDA);

  private MulticastLibrary() {}

  /**
   * Returns the least granularity of sizes and offsets of a multicast object of this many devices.
   */
  public static long granularity(int devices, long bytes, boolean fabric, Object place) {
    Offheap out = new Offheap(8);
    Offheap properties = properties(devices, bytes, fabric);
    int code =
        CUDA.cuMulticastGetGranularity(out.address(), properties.address(), MINIMUM_GRANULARITY);
    Reference.reachabilityFence(properties);
    CudaResult.check(code, "cuMulticastGetGranularity", place);
    return out.getLong(0);
  }

  /**
   * A new object; a handle.
   *
   * @param fabric whether it is exported as a fabric handle, and not as a file descriptor
   */
  public static long create(int devices, long bytes, boolean fabric, Object place) {
    Offheap out = new Offheap(8);
    Offheap properties = properties(devices, bytes, fabric);
    int code = CUDA.cuMulticastCreate(out.address(), properties.address());
    Reference.reachabilityFence(properties);
    CudaResult.check(
        code, "cuMulticastCreate for %d devices and %d bytes".formatted(devices, bytes), place);
    return out.getLong(0);
  }

  public static void addDevice(long handle, int device, Object place) {
    CudaResult.check(CUDA.cuMulticastAddDevice(handle, device), "cuMulticastAddDevice", place);
  }

  /** Binds all of a memory at the object's begin. All devices must have been added. */
  public static void bind(long handle, long memory, long bytes, Object place) {
    CudaResult.check(
        CUDA.cuMulticastBindMem(handle, 0, memory, 0, bytes, 0, 0), "cuMulticastBindMem", place);
  }

  /** Binds memory by where it is mapped, at the object's begin; as {@link #bind}. */
  public static void bindAddress(long handle, long address, long bytes, Object place) {
    CudaResult.check(
        CUDA.cuMulticastBindAddr(handle, 0, address, bytes, 0), "cuMulticastBindAddr", place);
  }

  public static void unbind(long handle, int device, long bytes, Object place) {
    CudaResult.check(CUDA.cuMulticastUnbind(handle, device, 0, bytes), "cuMulticastUnbind", place);
  }

  private static Offheap properties(int devices, long bytes, boolean fabric) {
    return new Offheap(PROP_BYTES)
        .putInt(0, devices)
        .putLong(8, bytes)
        .putLong(16, fabric ? SharingLibrary.FABRIC : SharingLibrary.FILE_DESCRIPTOR);
  }
}
