package org.nccl4j.device.symmetric;

import java.util.Optional;
import org.nccl4j.device.DeviceMemory;

/** The side of a device that windows use. Any thread may call any method. */
public interface SymmetricDevice {
  /** Returns the granularity of offsets and sizes in a flat range. */
  long granularity();

  /**
   * Bytes of one rank's stretch of a flat range: more than all of the device's memory, or on the
   * host more than the rank's share of it.
   *
   * @param team how many ranks have a stretch
   */
  long stride(int team);

  /** Bytes of the window that the library's own kernels need on each rank. */
  long resourceBytes(int nRanks);

  /**
   * The allocation that a memory lies in, to be released after use; empty where other ranks could
   * not map it, since it was not allocated by {@link org.nccl4j.device.Device#memAlloc}.
   */
  Optional<ShareableMemory> exportable(DeviceMemory memory);

  /**
   * Reserves addresses, without memory behind them.
   *
   * @param team how many ranks have a stretch
   * @throws org.nccl4j.device.NcclException if there are not so many addresses
   */
  FlatRange reserve(int team, long stride);
}
