package org.nccl4j.it.abi;

import java.util.concurrent.atomic.AtomicReferenceArray;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;

/**
 * Wrapped memory of one device by address and size, so that a warm call allocates nothing. The
 * driver is asked about memory that is wrapped anew. A program may free the memory: only the
 * address is kept. Any thread.
 */
final class WrappedMemory {
  private static final int SLOT_BITS = 12;
  private static final long MIX = 0x9e3779b97f4a7c15L;

  private final Device device;
  private final AtomicReferenceArray<DeviceMemory> kept =
      new AtomicReferenceArray<>(1 << SLOT_BITS);

  WrappedMemory(Device device) {
    this.device = device;
  }

  /** The bytes from an address on. */
  @HotPath
  DeviceMemory of(long address, long bytes) {
    int slot = (int) ((address + bytes * MIX) * MIX >>> Long.SIZE - SLOT_BITS);
    DeviceMemory found = kept.get(slot);
    return found != null && found.address() == address && found.size() == bytes
        ? found
        : wrap(slot, address, bytes);
  }

  private DeviceMemory wrap(int slot, long address, long bytes) {
    DeviceMemory wrapped = device.wrap(address, bytes);
    kept.set(slot, wrapped);
    return wrapped;
  }
}
