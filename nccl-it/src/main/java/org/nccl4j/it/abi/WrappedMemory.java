package org.nccl4j.it.abi;

import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;

/**
 * Wrapped memory of one device by address and size, so that a warm call allocates nothing. The
 * driver is asked about memory that is wrapped anew. A program may free the memory: only the
 * address is kept. Any thread.
 */
final class WrappedMemory {
  private static final int SET_BITS = 11;

  /** Places of a set, in any of which a buffer of the set may be. */
  private static final int WAYS = 4;

  private static final long MIX = 0x9e3779b97f4a7c15L;

  private final Device device;

  /**
   * Sets of places. No thread waits for another's write, which it may see late or lose: the memory
   * is wrapped again then. What it sees of an object was final when the object was made.
   */
  private final DeviceMemory[] kept = new DeviceMemory[WAYS << SET_BITS];

  /** The place in a full set that is taken next. Threads may lose counts. */
  private int next;

  WrappedMemory(Device device) {
    this.device = device;
  }

  /** The bytes from an address on. */
  @HotPath
  DeviceMemory of(long address, long bytes) {
    int set = WAYS * (int) ((address + bytes * MIX) * MIX >>> Long.SIZE - SET_BITS);
    for (int way = 0; way < WAYS; way++) {
      DeviceMemory found = kept[set + way];
      if (found != null && found.address() == address && found.size() == bytes) {
        return found;
      }
    }
    return wrap(set, address, bytes);
  }

  private DeviceMemory wrap(int set, long address, long bytes) {
    DeviceMemory wrapped = device.wrap(address, bytes);
    for (int way = 0; way < WAYS; way++) {
      if (kept[set + way] == null) {
        kept[set + way] = wrapped;
        return wrapped;
      }
    }
    kept[set + (next++ & WAYS - 1)] = wrapped;
    return wrapped;
  }
}
