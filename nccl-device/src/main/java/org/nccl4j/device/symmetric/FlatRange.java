package org.nccl4j.device.symmetric;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InternalErrorException;

/**
 * Reserved addresses, a stretch for each rank of a team, into which allocations are mapped. Used by
 * one thread at a time.
 */
public interface FlatRange extends AutoCloseable {
  /** The first address of the first stretch. */
  long address();

  /** Bytes from one stretch to the next. */
  long stride();

  /**
   * Maps an allocation of this process.
   *
   * @param place whose stretch
   * @param offset in the stretch
   * @return all of it, as this device sees it; closing that unmaps nothing
   */
  DeviceMemory map(int place, long offset, ShareableMemory allocation);

  /**
   * Maps an allocation of another process.
   *
   * @param descriptor as received; stays the caller's
   * @param bytes its size
   */
  DeviceMemory map(int place, long offset, int descriptor, long bytes);

  /**
   * Maps an allocation of a process of this or of another host.
   *
   * @param fabricHandle as its owner exported it
   * @param bytes its size
   * @throws org.nccl4j.device.CudaException if the driver cannot reach it
   */
  default DeviceMemory map(int place, long offset, byte[] fabricHandle, long bytes) {
    throw new InternalErrorException(
        "a fabric handle is mapped without a fabric", "report this defect");
  }

  /** Undoes a mapping: any later access to its addresses is an error. */
  void unmap(int place, long offset, long bytes);

  /** Undoes all mappings and gives the addresses back. Calling it again does nothing. */
  @Override
  void close();
}
