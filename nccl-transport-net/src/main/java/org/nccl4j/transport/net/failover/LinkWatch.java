package org.nccl4j.transport.net.failover;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.nio.channels.Selector;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.support.DaemonThread;
import org.nccl4j.device.support.Patience;

/**
 * The thread of one communicator's connections over a network that finds broken ones although no
 * operation asks for them, and has them repaired. It looks at times, and often while something is
 * broken. Once nothing has been under way for a while, it may rest until something comes.
 */
public class LinkWatch implements Runnable {
  /** A link that is looked at. */
  public interface Watched {
    /**
     * Looks for what is broken, and goes on with its replacement.
     *
     * @return whether one is broken
     */
    boolean look();

    /** True if something is under way that may find the link broken; by any thread. */
    boolean isUnderWay();

    /**
     * Registers what may come over an idle link with the watch's selector.
     *
     * @return false if the link has to be looked at although nothing comes
     */
    default boolean mayRest(Selector selector) throws IOException {
      return false;
    }

    /** A look has failed with an error that it does not handle: it was the last one. */
    default void lookFailed(Throwable e) {}

    /** The watch has rested: time without a look says nothing. */
    default void rested(long now) {}
  }

  private static final System.Logger LOG = DebugLog.of("NET");
  private static final long LOOK_NANOS = 50_000_000;
  private static final int LOOKS_FOR_PORT = 10;
  private static final long BUSY_LOOK_NANOS = 500_000;

  /** A look waits for nothing, but a busy machine may run its thread late. */
  private static final Duration LONGEST_LOOK = Duration.ofSeconds(30);

  private static final long MOST_LINGER_NANOS = 300_000_000;

  private final AtomicLong linger = new AtomicLong(MOST_LINGER_NANOS);
  private final String name;
  private final Duration bound;
  private final Runnable port;

  /** Longest time without a look; zero for no bound. */
  private final long idleNanos;

  /** Replaced by another array with each link: looking at it allocates nothing. */
  private volatile Watched[] links = {};

  /** Looks in a row before which nobody has woken it. Of this thread. */
  private int idleLooks;

  private volatile Thread thread;
  private volatile boolean stopped;

  /** True if TCP connections are being let in. Of this thread. */
  private boolean hasGuests;

  /** True while it does not look before it is woken. */
  private volatile boolean asleep;

  /** True while it looks only once something comes, or it is woken. */
  private volatile boolean resting;

  /**
   * A watch without links, and so without a thread.
   *
   * @param name of the thread
   * @param bound longest time that a broken link may take to be repaired; zero for no repair
   * @param idle longest time without a look while nothing is under way; zero for no bound
   * @param port takes what comes at the port
   */
  public LinkWatch(String name, Duration bound, Duration idle, Runnable port) {
    this.name = name;
    this.bound = bound;
    this.idleNanos = idle.toNanos();
    this.port = port;
  }

  /** Returns the longest time that a broken link may take to be repaired; zero for no repair. */
  public final Duration bound() {
    return bound;
  }

  /** Has the port looked at again soon: somebody is being let in. By the watch's thread. */
  public final void haveGuests() {
    hasGuests = true;
  }

  /** Watches one more link. */
  public final synchronized void add(Watched link) {
    List<Watched> all = new ArrayList<>(Arrays.asList(links));
    all.add(link);
    links = all.toArray(Watched[]::new);
    if (thread == null && !stopped) {
      Thread started = DaemonThread.of(this, name);
      thread = started;
      started.start();
    }
    wake();
  }

  /** Forgets a link. */
  public final synchronized void remove(Watched link) {
    List<Watched> all = new ArrayList<>(Arrays.asList(links));
    all.remove(link);
    links = all.toArray(Watched[]::new);
    wake();
  }

  /** Takes some of the time that all links together may linger when they close. */
  public final boolean mayLinger(long nanos) {
    return linger.addAndGet(-nanos) > 0;
  }

  /** Something is under way. */
  @HotPath
  public final void attend() {
    if (asleep) {
      wake();
    }
  }

  /** Something is under way that is soon enough looked at, unless this rests. */
  @HotPath
  public final void endRest() {
    if (resting) {
      wake();
    }
  }

  /** A link is broken, or what repairs it has come. */
  public void wake() {
    LockSupport.unpark(thread);
  }

  /** Returns the links. */
  protected final Watched[] links() {
    return links;
  }

  /**
   * Prepares a rest, which {@link #wake} ends from then on.
   *
   * @return true if something that comes ends it, too; false if links have to be looked at
   */
  protected boolean prepareRest() {
    return false;
  }

  /**
   * Ends a rest that was prepared.
   *
   * @param waits whether it first lasts until something comes, or this is woken
   */
  protected void rest(boolean waits) {}

  @Override
  public final void run() {
    boolean broken = false;
    boolean slept = false;
    int looks = 0;
    while (!stopped) {
      if (broken || slept || hasGuests || ++looks % LOOKS_FOR_PORT == 0) {
        hasGuests = false;
        lookAtPort();
      }
      broken = false;
      for (Watched link : links) {
        broken |= look(link);
      }
      slept = false;
      if (broken || hasGuests || isUnderWay()) {
        idleLooks = 0;
        Patience.parkOwn(this, broken || hasGuests ? BUSY_LOOK_NANOS : lookNanos());
      } else if (idleLooks > 0 && prepareRest()) {
        asleep = true;
        resting = true;
        rest(!stopped && !isUnderWay());
        resting = false;
        asleep = false;
        slept = true;
        idleLooks = 0;
      } else {
        slept = sleep();
        idleLooks = slept ? idleLooks + 1 : 0;
      }
    }
  }

  /** One link's error must not end the watch of the others. */
  private boolean look(Watched link) {
    try {
      return link.look();
    } catch (RuntimeException | Error e) {
      remove(link);
      LOG.log(
          Level.WARNING,
          "a connection is not repaired any more if it breaks; report this with the stack trace",
          e);
      link.lookFailed(e);
      return false;
    }
  }

  private void lookAtPort() {
    try {
      port.run();
    } catch (RuntimeException | Error e) {
      LOG.log(Level.WARNING, "the network's port failed; report this with the stack trace", e);
    }
  }

  private boolean isUnderWay() {
    for (Watched link : links) {
      if (link.isUnderWay()) {
        return true;
      }
    }
    return false;
  }

  private long lookNanos() {
    return idleNanos == 0 ? LOOK_NANOS : Math.min(LOOK_NANOS, idleNanos);
  }

  /**
   * Says first that it sleeps: who begins something afterwards wakes it.
   *
   * @return true if nobody did for the longest time without a look
   */
  private boolean sleep() {
    long begin = System.nanoTime();
    asleep = true;
    if (!stopped && !isUnderWay()) {
      if (idleNanos == 0) {
        Patience.parkOwn(this);
      } else {
        Patience.parkOwn(this, idleNanos);
      }
    }
    asleep = false;
    return idleNanos != 0 && System.nanoTime() - begin >= idleNanos;
  }

  /**
   * Stops it, and waits until it touches no link any more.
   *
   * @throws TimeoutException if it still does
   */
  public final void close() {
    Thread running;
    synchronized (this) {
      stopped = true;
      running = thread;
    }
    if (running == null) {
      return;
    }
    wake();
    if (!Patience.join(running, LONGEST_LOOK)) {
      throw new TimeoutException(
          ErrorId.STILL_RUNNING,
          "%s has not ended within %s".formatted(running.getName(), Patience.text(LONGEST_LOOK)),
          "report this with the output of jstack");
    }
  }
}
