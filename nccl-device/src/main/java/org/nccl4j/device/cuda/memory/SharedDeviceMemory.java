package org.nccl4j.device.cuda.memory;

import org.nccl4j.device.CudaException;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.cuda.driver.CudaResult;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.shm.OwnedFd;

/**
 * Memory of a GPU that kernels of other GPUs load from and store to: of this process by {@link
 * #accessFrom}, of others as each kind says. Any thread may call.
 */
public sealed interface SharedDeviceMemory extends AutoCloseable
    permits CudaShareableMemory, CudaIpcMemory {
  /**
   * Memory to share with other ranks: {@link CudaShareableMemory}, or {@link CudaIpcMemory} where
   * that is not to be had, which {@code MemorySharing.absence} tells from then on.
   *
   * @param abroad whether ranks of other processes need it too
   */
  static SharedDeviceMemory allocate(Gpu gpu, long bytes, boolean abroad) {
    if (gpu.sharing().absence().isEmpty()) {
      try {
        return exported(CudaShareableMemory.create(gpu, bytes), abroad);
      } catch (CudaException e) {
        if (!CudaResult.isRefusal(e)) {
          throw e;
        }
        gpu.sharing().refused(e);
      }
    }
    return CudaIpcMemory.create(gpu, bytes);
  }

  /**
   * Rounds a requested size up to whole blocks.
   *
   * @throws InvalidArgumentException for a size below 1
   */
  static long blocks(long bytes, long block) {
    if (bytes <= 0) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "shared memory of %d bytes is requested".formatted(bytes),
          "ask for 1 byte or more");
    }
    return (bytes + block - 1) / block * block;
  }

  /** Fills new memory with zeros; closes it if that fails. */
  static <M extends SharedDeviceMemory> M zeroed(M memory) {
    try {
      memory.local().fill((byte) 0);
      return memory;
    } catch (RuntimeException e) {
      memory.close();
      throw e;
    }
  }

  /** Some drivers, those of virtual machines say, refuse only the export. */
  private static CudaShareableMemory exported(CudaShareableMemory memory, boolean abroad) {
    try {
      if (abroad) {
        new OwnedFd(memory.exportFileDescriptor()).close();
      }
      return memory;
    } catch (RuntimeException e) {
      memory.close();
      throw e;
    }
  }

  /** Bytes, rounded up alike on all ranks. */
  long size();

  /** All of it as its own (or the importing) device sees it. Closing the view frees nothing. */
  DeviceMemory local();

  /**
   * All of it as another device of this process sees it, which may load and store it from now on.
   *
   * @throws org.nccl4j.device.CudaException if the device cannot reach it
   */
  DeviceMemory accessFrom(Gpu peer);

  /** Unmaps it here. */
  @Override
  void close();
}
