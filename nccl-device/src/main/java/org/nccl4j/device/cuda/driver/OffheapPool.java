package org.nccl4j.device.cuda.driver;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import org.nccl4j.device.bind.Offheap;

/**
 * Blocks outside the heap that discarded plans leave to later ones. Plans of changing sizes come
 * and go faster than the collector would give their memory back. Used by the thread that prepares.
 */
public final class OffheapPool {
  private final Map<Integer, Deque<Offheap>> free = new HashMap<>();

  /** A zeroed block. */
  public Offheap take(int bytes) {
    Deque<Offheap> left = free.get(bytes);
    Offheap block = left == null ? null : left.poll();
    return block == null ? new Offheap(bytes) : block.clear();
  }

  /** Takes a block back that nothing refers to any more. */
  public void give(Offheap block) {
    free.computeIfAbsent(block.bytes().capacity(), size -> new ArrayDeque<>()).push(block);
  }
}
