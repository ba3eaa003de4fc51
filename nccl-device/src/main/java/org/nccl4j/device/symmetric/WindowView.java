package org.nccl4j.device.symmetric;

import java.util.List;
import org.nccl4j.device.DeviceMemory;

/**
 * A window as kernels see it.
 *
 * @param number which window of the communicator
 * @param address where this rank's user sees its first byte
 * @param peers all of it, of each rank of the team by its place, in the flat range
 */
public record WindowView(long number, long address, List<DeviceMemory> peers) {
  /** Bytes. */
  public long size() {
    return peers.get(0).size();
  }
}
