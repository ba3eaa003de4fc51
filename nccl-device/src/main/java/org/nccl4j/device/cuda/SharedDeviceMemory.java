package org.nccl4j.device.cuda;

import org.nccl4j.device.DeviceMemory;

/**
 * Memory of a GPU that kernels of other GPUs load from and store to: of this process by {@link
 * #accessFrom}, of others as each kind says. Any thread may call.
 */
public sealed interface SharedDeviceMemory extends AutoCloseable
    permits CudaShareableMemory, CudaIpcMemory {
  /** Bytes, rounded up alike on all ranks. */
  long size();

  /** All of it as its own (or the importing) device sees it. Closing the view frees nothing. */
  DeviceMemory local();

  /**
   * All of it as another device of this process sees it, which may load and store it from now on.
   *
   * @throws org.nccl4j.device.CudaException if the device cannot reach it
   */
  DeviceMemory accessFrom(CudaDevice peer);

  /** Unmaps it here. */
  @Override
  void close();
}
