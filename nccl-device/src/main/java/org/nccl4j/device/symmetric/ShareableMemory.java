package org.nccl4j.device.symmetric;

import java.util.Optional;

/** An allocation that ranks of this and of other processes can map. Any thread may call. */
public interface ShareableMemory {
  /** The same for the same allocation, and different for any other of this process. */
  long number();

  /** Returns the owner's address of the first byte. */
  long address();

  /** Bytes, a multiple of the device's granularity. */
  long size();

  /** A new file descriptor for another process; the caller closes it. */
  int exportFileDescriptor();

  /**
   * Bytes by which processes of other hosts can map it too; empty where it has none.
   *
   * @throws org.nccl4j.device.CudaException if the driver refuses
   */
  default Optional<byte[]> exportFabricHandle() {
    return Optional.empty();
  }

  /** Ends the caller's use of this object; the allocation is its owner's. */
  void release();
}
