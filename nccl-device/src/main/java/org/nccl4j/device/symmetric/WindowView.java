package org.nccl4j.device.symmetric;

import java.util.List;
import org.nccl4j.device.DeviceMemory;

/**
 * A window as kernels see it.
 *
 * @param number which window of the communicator
 * @param address where this rank's user sees its first byte
 * @param peers all of it, of each rank of the team by its place, in the flat range
 * @param multicast all of it, of all ranks at once; null where it cannot be reached so
 */
public record WindowView(
    long number, long address, List<DeviceMemory> peers, MulticastMemory multicast) {
  /** A window that cannot be reached by multicast. */
  public WindowView(long number, long address, List<DeviceMemory> peers) {
    this(number, address, peers, null);
  }

  /** Bytes. */
  public long size() {
    return peers.get(0).size();
  }
}
