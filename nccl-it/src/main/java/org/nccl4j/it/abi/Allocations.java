package org.nccl4j.it.abi;

import java.util.Map;
import java.util.concurrent.ConcurrentNavigableMap;
import java.util.concurrent.ConcurrentSkipListMap;
import org.nccl4j.device.DeviceMemory;

/**
 * Memory that ncclMemAlloc has allocated, by address. As with NCCL, all GPUs that the process sees
 * can access it: a program may copy it while another GPU is current. Any thread.
 */
final class Allocations {
  private record Allocation(Place place, DeviceMemory memory) {}

  private static final ConcurrentNavigableMap<Long, Allocation> ALL = new ConcurrentSkipListMap<>();

  private Allocations() {}

  static long allocate(Place place, long bytes) {
    if (bytes < 0) {
      throw Wrong.argument(
          Long.toUnsignedString(bytes) + " bytes are allocated", "ask for less memory");
    }
    DeviceMemory memory = place.device().memAlloc(bytes);
    if (bytes > 0) {
      ALL.put(memory.address(), new Allocation(place, memory));
      place.open(memory);
    }
    return memory.address();
  }

  /**
   * Returns the part of an allocation that has some addresses, which is closed with it; null if
   * they are not all in one allocation of the device.
   */
  static DeviceMemory find(Place place, long address, long bytes) {
    Map.Entry<Long, Allocation> below = ALL.floorEntry(address);
    if (below == null || below.getValue().place != place) {
      return null;
    }
    DeviceMemory whole = below.getValue().memory;
    long offset = address - whole.address();
    return bytes > 0 && bytes <= whole.size() - offset ? whole.slice(offset, bytes) : null;
  }

  static void free(long address) {
    Allocation found = ALL.remove(address);
    if (found == null) {
      throw Wrong.argument(
          "0x%x was not allocated by ncclMemAlloc, or is already freed".formatted(address),
          "free each address of ncclMemAlloc once");
    }
    found.place.memory().forget(address, found.memory.size());
    found.memory.close();
  }
}
