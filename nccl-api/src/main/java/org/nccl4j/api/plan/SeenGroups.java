package org.nccl4j.api.plan;

import java.util.List;
import org.nccl4j.device.Leases;

/**
 * The groups of sends and receives that were planned last, as numbers, which keep no buffers.
 * Owner: the thread that plans.
 */
final class SeenGroups {
  private static final int GROUPS = 256;
  private static final long FACTOR = 0x9E3779B97F4A7C15L;

  private final long[] numbers = new long[GROUPS];
  private int next;

  /** Adds a group; true if it was planned before. */
  boolean add(List<P2pTask> tasks) {
    long number = number(tasks);
    for (long other : numbers) {
      if (other == number) {
        return true;
      }
    }
    numbers[next] = number;
    next = (next + 1) % GROUPS;
    return false;
  }

  /** Of the allocations too: a new buffer may have the address of one that was freed. */
  private static long number(List<P2pTask> tasks) {
    long number = 1;
    for (P2pTask task : tasks) {
      Object allocation = task.buffer() == null ? null : Leases.of(task.buffer());
      number = (number * FACTOR + task.hashCode()) * FACTOR + System.identityHashCode(allocation);
    }
    return number;
  }
}
