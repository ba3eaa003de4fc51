package org.nccl4j.api.window;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.nccl4j.device.symmetric.ShareableMemory;

/** The allocations that ranks of this process are registering, for its other ranks. */
final class LocalAllocations {
  private static final Map<String, ShareableMemory> OFFERED = new ConcurrentHashMap<>();

  private LocalAllocations() {}

  /**
   * Offers an allocation until it is withdrawn.
   *
   * @param communicator what identifies it among all of the process
   */
  static void offer(String communicator, int rank, ShareableMemory allocation) {
    OFFERED.put(key(communicator, rank), allocation);
  }

  /** Returns the memory that a rank offers, or null. */
  static ShareableMemory find(String communicator, int rank) {
    return OFFERED.get(key(communicator, rank));
  }

  static void withdraw(String communicator, int rank) {
    OFFERED.remove(key(communicator, rank));
  }

  private static String key(String communicator, int rank) {
    return rank + " of " + communicator;
  }
}
