package org.nccl4j.transport.p2p;

import java.lang.ref.WeakReference;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.nccl4j.device.shm.MappedRegion;

/**
 * An arena that other ranks of this process find by its number. It stays until its owner and all
 * that found it have released it, since a rank may close its communicator while another still
 * touches the regions that they share. Any thread.
 */
final class LocalArena {
  private static final Map<Long, WeakReference<LocalArena>> ARENAS = new ConcurrentHashMap<>();
  private static final AtomicLong NEXT = new AtomicLong(1);

  private final long number = NEXT.getAndIncrement();
  private final MappedRegion region;
  private int users = 1;

  private LocalArena(MappedRegion region) {
    this.region = region;
  }

  /** A new one, in use by its owner. */
  static LocalArena create(long bytes) {
    LocalArena arena = new LocalArena(MappedRegion.anonymous(bytes));
    ARENAS.put(arena.number, new WeakReference<>(arena));
    return arena;
  }

  /** The arena of a number, from now on in use by the caller too; null if there is none. */
  static LocalArena find(long number) {
    WeakReference<LocalArena> reference = ARENAS.get(number);
    LocalArena arena = reference == null ? null : reference.get();
    return arena != null && arena.retain() ? arena : null;
  }

  long number() {
    return number;
  }

  long address() {
    return region.address();
  }

  long bytes() {
    return region.bytes();
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
      region.close();
    }
  }
}
