package org.nccl4j.it.abi;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;

/**
 * Wrapped memory of one device by address and size, so that a warm call allocates nothing. The
 * driver is asked about memory that is wrapped anew. A program may free memory of its own: only the
 * address is kept. Memory of ncclMemAlloc is forgotten before it is freed. Buffers in registered
 * memory of the host are parts of it, as networks need them. Any thread.
 */
final class WrappedMemory {
  private static final int SET_BITS = 11;

  /** Places of a set, in any of which a buffer of the set may be. */
  private static final int WAYS = 4;

  private static final long MIX = 0x9e3779b97f4a7c15L;

  private final Place place;

  /**
   * Sets of places. No thread waits for another's write, which it may see late or lose: the memory
   * is wrapped again then. What it sees of an object was final when the object was made.
   */
  private final DeviceMemory[] kept = new DeviceMemory[WAYS << SET_BITS];

  /** Memory of the host that is registered, but memory of ncclMemAlloc. */
  private final List<DeviceMemory> registered = new CopyOnWriteArrayList<>();

  /** The place in a full set that is taken next. Threads may lose counts. */
  private int next;

  WrappedMemory(Place place) {
    this.place = place;
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
    DeviceMemory wrapped =
        place.isHost() ? find(address, bytes) : place.device().wrap(address, bytes);
    for (int way = 0; way < WAYS; way++) {
      if (kept[set + way] == null) {
        kept[set + way] = wrapped;
        return wrapped;
      }
    }
    kept[set + (next++ & WAYS - 1)] = wrapped;
    return wrapped;
  }

  /**
   * Finds the bytes from an address on: a part of memory of ncclMemAlloc or of registered memory of
   * the host, which networks know by its object, else memory that is wrapped for them.
   */
  DeviceMemory find(long address, long bytes) {
    DeviceMemory allocated = Allocations.find(place, address, bytes);
    if (allocated != null) {
      return allocated;
    }
    for (DeviceMemory each : registered) {
      long offset = address - each.address();
      if (offset >= 0 && bytes > 0 && bytes <= each.size() - offset) {
        return each.slice(offset, bytes);
      }
    }
    return place.device().wrap(address, bytes);
  }

  /** Has buffers in a memory that is being registered be parts of it. */
  void register(DeviceMemory memory) {
    if (place.isHost() && Allocations.find(place, memory.address(), memory.size()) == null) {
      registered.add(memory);
      forget(memory.address(), memory.size());
    }
  }

  /** Has buffers be parts of other registered memory, if they lie in any. */
  void deregister(DeviceMemory memory) {
    if (registered.remove(memory)) {
      forget(memory.address(), memory.size());
    }
  }

  /** Keeps nothing of some addresses: the next memory there is wrapped anew. */
  void forget(long address, long bytes) {
    for (int i = 0; i < kept.length; i++) {
      DeviceMemory found = kept[i];
      if (found != null
          && found.address() < address + bytes
          && address < found.address() + found.size()) {
        kept[i] = null;
      }
    }
  }
}
