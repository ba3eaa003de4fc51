package org.nccl4j.transport.net.failover;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.time.Duration;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.support.Patience;

/**
 * The right to use a connection, which one thread at a time has: the user of the connection, or its
 * {@link LinkWatch}. Nobody waits for it in a hot path.
 */
public final class Turn {
  /** No turn waits for anything, but a busy machine may run its thread late. */
  private static final Duration LONGEST = Duration.ofSeconds(30);

  /** Longest wait of a watch, which looks again soon. */
  private static final Duration LOOK = Duration.ofMillis(5);

  private static final int SPINS = 1000;

  private static final VarHandle TAKEN;

  static {
    try {
      TAKEN = MethodHandles.lookup().findVarHandle(Turn.class, "taken", int.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  /** 1 while a thread has the turn, else 0. */
  private volatile int taken;

  /** True while the watch waits for the turn. */
  private volatile boolean wanted;

  /**
   * Takes the turn if no thread has it and the watch does not wait for it; what its last owner
   * wrote is then seen.
   */
  @HotPath
  public boolean enter() {
    return !wanted && take();
  }

  @HotPath
  private boolean take() {
    return taken == 0 && TAKEN.compareAndSet(this, 0, 1);
  }

  /** Gives the turn back, with all that was written meanwhile. */
  @HotPath
  public void leave() {
    TAKEN.setRelease(this, 0);
  }

  /**
   * Takes the turn after its owner, for the watch alone. A thread that polls a connection over and
   * over has the turn nearly always, and gets it no more meanwhile. False if the owner keeps it for
   * milliseconds.
   */
  public boolean enterNext() {
    return enterNext(LOOK);
  }

  /** Takes the turn as {@link #enterNext()} does; waits for the owner for a given time. */
  boolean enterNext(Duration most) {
    if (take()) {
      return true;
    }
    wanted = true;
    try {
      for (int spin = 0; spin < SPINS; spin++) { // an owner that runs leaves in microseconds
        Thread.onSpinWait();
        if (take()) {
          return true;
        }
      }
      return Patience.until(this::take, most);
    } finally {
      wanted = false;
    }
  }

  /** Takes the turn as soon as its owner leaves; false if the owner keeps it for too long. */
  public boolean enterSoon() {
    return Patience.until(this::enter, LONGEST);
  }
}
