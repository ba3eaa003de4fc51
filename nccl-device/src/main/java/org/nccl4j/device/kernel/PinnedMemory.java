package org.nccl4j.device.kernel;

import org.nccl4j.device.DeviceMemory;

/**
 * Memory that kernels of a device and threads of the host both reach at any time, without a call of
 * the driver: also from a function that a stream calls, where the driver allows no call.
 */
public interface PinnedMemory extends AutoCloseable {
  /** Returns the memory as kernels see it. */
  DeviceMemory memory();

  /** Writes all of it. */
  void put(byte[] bytes);

  /** Its content, with the writes of all kernels that have ended. */
  byte[] get();

  /** Frees it; nothing may be running that uses it. */
  @Override
  void close();
}
