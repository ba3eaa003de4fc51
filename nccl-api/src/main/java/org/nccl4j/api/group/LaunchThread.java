package org.nccl4j.api.group;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.locks.LockSupport;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.support.Patience;

/**
 * A thread that launches one rank's part of a group, while the caller launches another's. Between
 * groups it polls for a while, since waking a thread takes longer than a launch; then it sleeps.
 * Any thread may submit a launch, and must then take its outcome.
 */
final class LaunchThread implements AutoCloseable {
  /** Time for which the thread polls before it sleeps. */
  private static final long SPIN_NANOS = 200_000;

  private static final int LOOKS_PER_TIME = 64;

  /** Result of work that threw nothing. */
  private static final Object NOTHING = new Object();

  private static final Object CLOSED = new Object();

  private static final VarHandle STATE;

  static {
    try {
      STATE = MethodHandles.lookup().findVarHandle(LaunchThread.class, "state", Object.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  /** A rank's thread, started at the first group that needs it. */
  static final class OnDemand {
    private final String name;
    private final Runnable first;

    /** Written under this object's monitor. */
    private volatile LaunchThread made;

    /** None yet; the arguments are those of the thread. */
    OnDemand(String name, Runnable first) {
      this.name = name;
      this.first = first;
    }

    LaunchThread get() {
      LaunchThread known = made;
      return known == null ? make() : known;
    }

    private synchronized LaunchThread make() {
      if (made == null) {
        made = new LaunchThread(name, first);
      }
      return made;
    }

    /**
     * Ends the thread, if there is one; a later group starts another.
     *
     * @param waits whether to wait for what it was given
     */
    synchronized void end(boolean waits) {
      if (made != null && waits) {
        made.close();
      } else if (made != null) {
        made.closeLater();
      }
      made = null;
    }
  }

  private final Thread thread;

  /**
   * Null while it is free; then a Runnable, which publishes the work, by compareAndSet; then what
   * that threw or {@link #NOTHING}, which publishes what it did, by setRelease, until who handed it
   * over has seen that. {@link #CLOSED} for good.
   */
  private volatile Object state;

  private volatile boolean asleep;

  /** True if it ends when it is free. Written once; read by the thread. */
  private volatile boolean ending;

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
    if (!STATE.compareAndSet(this, null, given)) {
      return false;
    }
    if (asleep) {
      LockSupport.unpark(thread);
    }
    return true;
  }

  /** Waits until the launch is done; returns its exception, or null. */
  Throwable await() {
    int looks = 0;
    Object now = state;
    while (now instanceof Runnable) {
      Thread.onSpinWait();
      if (++looks % LOOKS_PER_TIME == 0 && !thread.isAlive() && state == now) {
        return new InternalErrorException(
            "the thread " + thread.getName() + " has ended", "report this");
      }
      now = state;
    }
    STATE.setRelease(this, null);
    return now == NOTHING ? null : (Throwable) now;
  }

  private void run(Runnable first) {
    first.run();
    long idleSince = System.nanoTime();
    int looks = 0;
    Object now = state;
    while (now != CLOSED) {
      if (now instanceof Runnable given) {
        STATE.setRelease(this, outcome(given));
        idleSince = System.nanoTime();
      } else if (now == null && ending) {
        STATE.compareAndSet(this, null, CLOSED);
      } else if (++looks % LOOKS_PER_TIME == 0 && System.nanoTime() - idleSince > SPIN_NANOS) {
        sleep();
        idleSince = System.nanoTime();
      } else {
        Thread.onSpinWait();
      }
      now = state;
    }
  }

  private static Object outcome(Runnable given) {
    try {
      given.run();
      return NOTHING;
    } catch (RuntimeException | Error e) {
      return e;
    }
  }

  private void sleep() {
    asleep = true;
    if (!(state instanceof Runnable) && state != CLOSED && !ending) {
      Patience.parkOwn(this);
    }
    asleep = false;
  }

  /** Ends it as soon as what it was given is done, which is not waited for. */
  void closeLater() {
    ending = true;
    LockSupport.unpark(thread);
  }

  /** Ends it, once what it was given is done. */
  @Override
  public void close() {
    while (!STATE.compareAndSet(this, null, CLOSED) && state != CLOSED && thread.isAlive()) {
      Thread.yield();
    }
    LockSupport.unpark(thread);
  }
}
