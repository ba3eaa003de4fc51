package org.nccl4j.api.group;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.locks.LockSupport;
import org.nccl4j.device.InternalErrorException;

/**
 * A thread that launches one rank's part of a group, while the caller launches another's. Between
 * groups it looks for more for a while, since to wake a thread takes longer than to launch; then it
 * sleeps. Any thread may hand something over; who does must take the outcome.
 */
final class LaunchThread implements AutoCloseable {
  /** How long it looks before it sleeps. */
  private static final long SPIN_NANOS = 200_000;

  private static final int LOOKS_PER_TIME = 64;

  private static final int FREE = 0;
  private static final int CLAIMED = 1;
  private static final int GIVEN = 2;
  private static final int DONE = 3;
  private static final int CLOSED = 4;

  private static final VarHandle STATE;

  static {
    try {
      STATE = MethodHandles.lookup().findVarHandle(LaunchThread.class, "state", int.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final Thread thread;

  /** GIVEN publishes the work, DONE publishes what it threw. */
  private volatile int state;

  private volatile boolean asleep;
  private Runnable work;
  private Throwable thrown;

  /**
   * Starts it.
   *
   * @param first what it does before all else
   */
  LaunchThread(String name, Runnable first) {
    thread = new Thread(() -> run(first), name);
    thread.setDaemon(true);
    thread.start();
  }

  /** Hands something over, to be followed by {@link #await}; false if it is busy or closed. */
  boolean give(Runnable given) {
    if (!STATE.compareAndSet(this, FREE, CLAIMED)) {
      return false;
    }
    work = given;
    state = GIVEN;
    if (asleep) {
      LockSupport.unpark(thread);
    }
    return true;
  }

  /** Waits until what was handed over is done; what it threw, or null. */
  Throwable await() {
    int looks = 0;
    while (state != DONE) {
      Thread.onSpinWait();
      if (++looks % LOOKS_PER_TIME == 0 && !thread.isAlive() && state != DONE) {
        return new InternalErrorException(
            "the thread " + thread.getName() + " has ended", "report this");
      }
    }
    Throwable outcome = thrown;
    thrown = null;
    state = FREE;
    return outcome;
  }

  private void run(Runnable first) {
    first.run();
    long idleSince = System.nanoTime();
    int looks = 0;
    while (state != CLOSED) {
      if (state == GIVEN) {
        doWork();
        idleSince = System.nanoTime();
      } else if (++looks % LOOKS_PER_TIME == 0 && System.nanoTime() - idleSince > SPIN_NANOS) {
        sleep();
        idleSince = System.nanoTime();
      } else {
        Thread.onSpinWait();
      }
    }
  }

  private void doWork() {
    try {
      work.run();
    } catch (RuntimeException | Error e) {
      thrown = e;
    }
    work = null;
    state = DONE;
  }

  private void sleep() {
    asleep = true;
    if (state != GIVEN && state != CLOSED) {
      LockSupport.park(this);
    }
    asleep = false;
  }

  /** Ends it, once what it was given is done. */
  @Override
  public void close() {
    while (!STATE.compareAndSet(this, FREE, CLOSED) && state != CLOSED && thread.isAlive()) {
      Thread.yield();
    }
    LockSupport.unpark(thread);
  }
}
