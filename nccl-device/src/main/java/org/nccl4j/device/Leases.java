package org.nccl4j.device;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * Counts the uses of a memory or of a stream, so that closing frees it under nobody: it is freed by
 * close, or by the end of the last lease after that. Any thread.
 *
 * <p>Held from a call to its launch, and while bytes are copied. Launched operations need no lease:
 * the device knows of them, and frees after them.
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

  /** The leases held, and CLOSED after close. */
  private volatile int state;

  /** Creates an open lease count that no operation uses. */
  protected Leases() {}

  /** Leases that free by running a function, which close or the last user calls. */
  public static Leases freeing(Runnable release) {
    return new Leases() {
      @Override
      protected void free() {
        release.run();
      }
    };
  }

  /** The leases of a memory; a slice has those of the memory that it is a part of. */
  public static Leases of(DeviceMemory memory) {
    return memory.leases();
  }

  /** The leases of a stream. */
  public static Leases of(DeviceStream stream) {
    return stream.leases();
  }

  /**
   * Begins a lease of each of two memories, also after close as long as there is another; for a
   * launch on behalf of a call that may hold some.
   *
   * @param send may be null
   * @param recv may be null
   * @throws InvalidUsageException if one is over; then there is no lease
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
   * @throws InvalidUsageException if one is closed; then there is no lease
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
   * @throws InvalidUsageException if it is closed; then there is none
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

  /** The error of a use of closed memory. */
  public static InvalidUsageException closed(DeviceMemory memory) {
    return memory.closed();
  }

  /** Frees the thing. Called once, by the thread that closes it. */
  protected abstract void free();

  /** Frees the thing. Called once instead of {@link #free}, by the thread that used it last. */
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
   * Begins a lease, also after close as long as there is another; for a launch on behalf of a call
   * that may hold one.
   *
   * @return false if the thing is over
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

  /** Ends a lease; frees if it was the last, and the thing was closed meanwhile. */
  @HotPath
  public final void end() {
    if ((int) STATE.getAndAdd(this, -1) == CLOSED + 1) {
      freeLate();
    }
  }

  /** Closes as {@link #close(Object)} does, and notifies nobody. */
  public final boolean close() {
    return close(this);
  }

  /**
   * Refuses leases from now on, and frees unless there are some.
   *
   * @param what the thing, for people, if they are not ended soon
   * @return false if it had been called before
   */
  public final boolean close(Object what) {
    int now = (int) STATE.getAndBitwiseOr(this, CLOSED);
    if (now == 0) {
      free();
    } else if (now > 0 && what != this) {
      OverdueLeases.closed(this, what);
    }
    return now >= 0;
  }
}
