package org.nccl4j.transport.p2p;

import java.lang.ref.WeakReference;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/**
 * Arenas of one kind of memory that the ranks of this process find by number. One stays until its
 * owner and all that found it have released it, since a rank may close its communicator while
 * another still touches the regions that they share. Any thread.
 */
final class LocalArenas<M> {
  private final Map<Long, WeakReference<Arena>> arenas = new ConcurrentHashMap<>();
  private final AtomicLong next = new AtomicLong(1);
  private final Consumer<M> free;

  /** No arenas yet, of a memory that is freed in this way. */
  LocalArenas(Consumer<M> free) {
    this.free = free;
  }

  /** A new one, in use by its owner. Forgets those that nobody released and nobody has any more. */
  Arena create(M memory) {
    arenas.values().removeIf(reference -> reference.get() == null);
    Arena arena = new Arena(next.getAndIncrement(), memory);
    arenas.put(arena.number, new WeakReference<>(arena));
    return arena;
  }

  /** Returns the number of arenas that are known. */
  int size() {
    return arenas.size();
  }

  /**
   * The arena of a number, from now on in use by the caller too; null if there is none.
   *
   * @param number as another rank has sent it
   */
  Arena find(String number) {
    WeakReference<Arena> reference =
        number.matches("[0-9]{1,18}") ? arenas.get(Long.parseLong(number)) : null;
    Arena arena = reference == null ? null : reference.get();
    return arena != null && arena.retain() ? arena : null;
  }

  /** Memory of one rank. */
  final class Arena {
    private final long number;
    private final M memory;
    private int users = 1;

    private Arena(long number, M memory) {
      this.number = number;
      this.memory = memory;
    }

    long number() {
      return number;
    }

    M memory() {
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
        arenas.remove(number);
        free.accept(memory);
      }
    }
  }
}
