package org.nccl4j.device;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * Counts the uses of a memory or of a stream, so that it is never freed while it is used: close
 * frees it, or the end of the last lease after close. Any thread.
 *
 * <p>A lease is held from a call to its launch, and while bytes are copied; {@code HeldLeases}
 * holds some without a count. Launched operations need no lease: the device knows them, and frees
 * after them.
 */
public abstract class Leases {
  private static final int CLOSED = Integer.MIN_VALUE;
  private static final VarHandle STATE;

  static {
    try {
      STATE = MethodHandles.lookup().findVarHandle(Leases.class, "state", int.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  /** Null until something is held without a count for the first time. */
  private static volatile Holders holders;

  /** Those that hold leases without a count. Any thread calls them. */
  interface Holders {
    /** Leases are about to be closed: one is counted for each holder. */
    void closing(Leases leases);

    /** Ends leases that were counted and that no holder needs. */
    void look();
  }

  /** Registers those that hold leases without a count. */
  static void tell(Holders told) {
    holders = told;
  }

  /** The leases held, and CLOSED after close. */
  private volatile int state;

  /** Creates an open lease count that no operation uses. */
  protected Leases() {}

  /** Creates leases that run a function to free, on close or at the end of the last lease. */
  public static Leases freeing(Runnable release) {
    return new Leases() {
      @Override
      protected void free() {
        release.run();
      }
    };
  }

  /** The leases of a memory; a slice has those of its memory. */
  public static Leases of(DeviceMemory memory) {
    return memory.leases();
  }

  /** The leases of a stream. */
  public static Leases of(DeviceStream stream) {
    return stream.leases();
  }

  /**
   * Begins a lease of each of two memories, also after close if there is still another lease; for a
   * launch of a call that may hold leases.
   *
   * @param send may be null
   * @param recv may be null
   * @throws InvalidUsageException if one is over; then no lease is begun
   */
  @HotPath
  public static void extend(DeviceMemory send, DeviceMemory recv) {
    if (send != null && !send.leases().extend()) {
      throw send.closed();
    }
    if (recv != null && !recv.leases().extend()) {
      end(send, null);
      throw recv.closed();
    }
  }

  /**
   * Begins a lease of each of two memories.
   *
   * @param first may be null
   * @param second may be null
   * @throws InvalidUsageException if one is closed; then no lease is begun
   */
  @HotPath
  public static void begin(DeviceMemory first, DeviceMemory second) {
    if (first != null) {
      first.lease();
    }
    if (second != null && !(second.isOpen() && second.leases().begin())) {
      end(first, null);
      throw second.closed();
    }
  }

  /**
   * Begins a lease of a stream.
   *
   * @throws InvalidUsageException if it is closed; then no lease is begun
   */
  @HotPath
  public static void begin(DeviceStream stream) {
    if (!stream.leases().begin()) {
      throw stream.closed();
    }
  }

  /** Ends a lease of each of two memories, which may be null. */
  @HotPath
  public static void end(DeviceMemory send, DeviceMemory recv) {
    if (send != null) {
      send.leases().end();
    }
    if (recv != null) {
      recv.leases().end();
    }
  }

  /**
   * Closes a memory without waiting for launched operations that use it, which may wait for what
   * the calling thread launches next.
   */
  public static void closeLate(DeviceMemory memory) {
    Leases leases = memory.leases();
    boolean begun = leases.extend();
    leases.close();
    if (begun) {
      leases.end();
    }
  }

  /** The error of a use of closed memory. */
  public static InvalidUsageException closed(DeviceMemory memory) {
    return memory.closed();
  }

  /** The error of a use of a closed stream. */
  public static InvalidUsageException closed(DeviceStream stream) {
    return stream.closed();
  }

  /**
   * Logs memory and streams that were closed while a call used them and are still in use after a
   * minute; each once. Ends leases that were counted for a holder too late. Called repeatedly while
   * there are communicators.
   */
  public static void logOverdue() {
    Holders told = holders;
    if (told != null) {
      told.look();
    }
    OverdueLeases.look();
  }

  /** Frees the memory or stream. Called once, by the thread that closes it. */
  protected abstract void free();

  /**
   * Frees the memory or stream. Called once instead of {@link #free}, by the thread that ends the
   * last lease.
   */
  protected void freeLate() {
    free();
  }

  /** True until it is closed. */
  @HotPath
  public final boolean isOpen() {
    return state >= 0;
  }

  /** True if it is closed without leases: it is being freed, or will be soon. */
  @HotPath
  public final boolean isOver() {
    return state == CLOSED;
  }

  /** Begins a lease; false after close. */
  @HotPath
  public final boolean begin() {
    int now = state;
    while (now >= 0) {
      if (STATE.weakCompareAndSet(this, now, now + 1)) {
        return true;
      }
      now = state;
    }
    return false;
  }

  /**
   * Begins a lease, also after close if there is still another lease; for a launch of a call that
   * may hold one.
   *
   * @return false if it {@link #isOver}
   */
  @HotPath
  public final boolean extend() {
    int now = state;
    while (now != CLOSED) {
      if (STATE.weakCompareAndSet(this, now, now + 1)) {
        return true;
      }
      now = state;
    }
    return false;
  }

  /** Ends a lease; frees after close if it was the last. */
  @HotPath
  public final void end() {
    if ((int) STATE.getAndAdd(this, -1) == CLOSED + 1) {
      freeLate();
    }
  }

  /** Closes as {@link #close(Object)} does, without a log line for overdue leases. */
  public final boolean close() {
    return close(this);
  }

  /**
   * Refuses new leases, and frees unless leases exist.
   *
   * @param what description for the log if leases are not ended soon
   * @return false if it had been called before
   */
  public final boolean close(Object what) {
    Holders told = holders;
    if (told != null) {
      told.closing(this);
    }
    int now = (int) STATE.getAndBitwiseOr(this, CLOSED);
    if (now == 0) {
      free();
    } else if (now > 0 && what != this) {
      OverdueLeases.closed(this, what);
    }
    return now >= 0;
  }
}
