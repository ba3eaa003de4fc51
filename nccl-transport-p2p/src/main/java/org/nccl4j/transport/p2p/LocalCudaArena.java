package org.nccl4j.transport.p2p;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.nccl4j.device.cuda.SharedDeviceMemory;

/**
 * A GPU's arena that other ranks of this process find by its number. As {@link LocalArena}, it
 * stays until its owner and all that found it have released it. Any thread.
 */
final class LocalCudaArena {
  private static final Map<Long, LocalCudaArena> ARENAS = new ConcurrentHashMap<>();
  private static final AtomicLong NEXT = new AtomicLong(1);

  private final long number = NEXT.getAndIncrement();
  private final SharedDeviceMemory memory;
  private int users = 1;

  private LocalCudaArena(SharedDeviceMemory memory) {
    this.memory = memory;
  }

  /** A new one, in use by its owner. */
  static LocalCudaArena create(SharedDeviceMemory memory) {
    LocalCudaArena arena = new LocalCudaArena(memory);
    ARENAS.put(arena.number, arena);
    return arena;
  }

  /** The arena of a number, from now on in use by the caller too; null if there is none. */
  static LocalCudaArena find(long number) {
    LocalCudaArena arena = ARENAS.get(number);
    return arena != null && arena.retain() ? arena : null;
  }

  long number() {
    return number;
  }

  SharedDeviceMemory memory() {
    return memory;
  }

  private synchronized boolean retain() {
    if (users == 0) {
      return false;
    }
    users++;
    return true;
  }

  /** Ends the caller's use. */
  synchronized void release() {
    users--;
    if (users == 0) {
      ARENAS.remove(number);
      memory.close();
    }
  }
}
