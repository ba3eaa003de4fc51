package org.nccl4j.it.abi;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.nccl4j.device.DeviceMemory;

/** Memory that ncclMemAlloc has allocated, by address. Any thread. */
final class Allocations {
  private static final Map<Long, DeviceMemory> ALL = new ConcurrentHashMap<>();

  private Allocations() {}

  static long allocate(Place place, long bytes) {
    if (bytes < 0) {
      throw Wrong.argument(
          Long.toUnsignedString(bytes) + " bytes are allocated", "ask for less memory");
    }
    DeviceMemory memory = place.device().memAlloc(bytes);
    if (bytes > 0) {
      ALL.put(memory.address(), memory);
    }
    return memory.address();
  }

  static void free(long address) {
    DeviceMemory memory = ALL.remove(address);
    if (memory == null) {
      throw Wrong.argument(
          "0x%x is freed, which ncclMemAlloc did not give or which was freed before"
              .formatted(address),
          "free each address of ncclMemAlloc once");
    }
    memory.close();
  }
}
