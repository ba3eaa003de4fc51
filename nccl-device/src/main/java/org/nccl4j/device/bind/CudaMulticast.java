package org.nccl4j.device.bind;

/**
 * The multicast functions of libcuda.so.1. Addresses and handles are plain longs; structures are
 * laid out by the caller. Called only by the CUDA device's multicast class, and loaded only when an
 * object is made.
 */
public interface CudaMulticast {
  /** See the CUDA driver API. */
  int cuMulticastCreate(long handle, long prop);

  /** See the CUDA driver API. */
  int cuMulticastAddDevice(long handle, int device);

  /**
   * See the CUDA driver API. The last argument is not the function's, which never sees it: where
   * other code used jnr-ffi before {@link NativeLibrary} was loaded, it passes the sixth of exactly
   * six integers wrong.
   */
  int cuMulticastBindMem(
      long handle, long offset, long memory, long memoryOffset, long size, long flags, long none);

  /** See the CUDA driver API. */
  int cuMulticastBindAddr(long handle, long offset, long address, long size, long flags);

  /** See the CUDA driver API. */
  int cuMulticastUnbind(long handle, int device, long offset, long size);

  /** See the CUDA driver API. */
  int cuMulticastGetGranularity(long granularity, long prop, int option);
}
