package org.nccl4j.transport.net.socket.link;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.Patience;
import org.nccl4j.device.TimeoutException;

/**
 * The thread of one communicator's sockets that finds broken ones although no operation asks for
 * them, and replaces them. It looks at times, and often while something is broken.
 */
public final class SocketWatch implements Runnable {
  /** A link that is looked at. */
  interface Watched {
    /**
     * Looks for broken sockets, and goes on with their replacement.
     *
     * @return whether one is broken
     */
    boolean look();

    /** True if something is under way that may find a socket broken; by any thread. */
    boolean isUnderWay();
  }

  private static final long LOOK_NANOS = 50_000_000;
  private static final int LOOKS_FOR_PORT = 10;

  /** Looks in the time of a silent socket, although nothing is under way. */
  private static final int IDLE_LOOKS = 8;

  private static final long SHORTEST_IDLE_NANOS = 5_000_000;
  private static final long BUSY_LOOK_NANOS = 500_000;

  /** A look waits for nothing. */
  private static final Duration LONGEST_LOOK = Duration.ofSeconds(5);

  private static final long MOST_LINGER_NANOS = 300_000_000;

  private final AtomicLong linger = new AtomicLong(MOST_LINGER_NANOS);
  private final Duration bound;
  private final Duration silence;
  private final Runnable port;

  /** Longest time without a look; zero for no bound. */
  private final long idleNanos;

  /** Replaced by another array with each link: looking at it allocates nothing. */
  private volatile Watched[] links = {};

  private volatile Thread thread;
  private volatile boolean stopped;

  /** True if sockets are being let in. Of this thread. */
  private boolean hasGuests;

  /** True while it does not look before it is woken. */
  private volatile boolean asleep;

  /**
   * A watch without links, and so without a thread.
   *
   * @param bound longest time that a socket may take to be replaced; zero for no replacement
   * @param silence time after which another socket is tried in place of a silent one; zero for none
   * @param port takes what comes at the port
   */
  public SocketWatch(Duration bound, Duration silence, Runnable port) {
    this.bound = bound;
    this.silence = bound.isZero() ? Duration.ZERO : silence;
    this.port = port;
    this.idleNanos =
        this.silence.isZero() ? 0 : Math.max(SHORTEST_IDLE_NANOS, silence.toNanos() / IDLE_LOOKS);
  }

  /** Returns the longest time that a socket may take to be replaced. */
  Duration bound() {
    return bound;
  }

  /** Returns the time after which another socket is tried in place of a silent one. */
  public Duration silence() {
    return silence;
  }

  /** Has the port looked at again soon: somebody is being let in. By the watch's thread. */
  public void haveGuests() {
    hasGuests = true;
  }

  /** Watches one more link. */
  synchronized void add(Watched link) {
    List<Watched> all = new ArrayList<>(Arrays.asList(links));
    all.add(link);
    links = all.toArray(Watched[]::new);
    if (thread == null && !stopped) {
      Thread started = new Thread(this, "nccl4j-socket-watch");
      started.setDaemon(true);
      thread = started;
      started.start();
    }
  }

  /** Forgets a link. */
  synchronized void remove(Watched link) {
    List<Watched> all = new ArrayList<>(Arrays.asList(links));
    all.remove(link);
    links = all.toArray(Watched[]::new);
  }

  /** Takes some of the time that all links together may linger when they close. */
  boolean mayLinger(long nanos) {
    return linger.addAndGet(-nanos) > 0;
  }

  /** Something is under way. */
  @HotPath
  void attend() {
    if (asleep) {
      wake();
    }
  }

  /** A socket is broken, or another has come in its place. */
  public void wake() {
    LockSupport.unpark(thread);
  }

  @Override
  public void run() {
    boolean broken = false;
    boolean slept = false;
    int looks = 0;
    while (!stopped) {
      if (broken || slept || hasGuests || ++looks % LOOKS_FOR_PORT == 0) {
        hasGuests = false;
        port.run();
      }
      broken = false;
      for (Watched link : links) {
        broken |= link.look();
      }
      slept = false;
      if (!broken && !hasGuests && !isUnderWay()) {
        slept = sleep();
      } else {
        Patience.parkOwn(this, broken || hasGuests ? BUSY_LOOK_NANOS : lookNanos());
      }
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
  public void close() {
    Thread running;
    synchronized (this) {
      stopped = true;
      running = thread;
    }
    if (running == null) {
      return;
    }
    LockSupport.unpark(running);
    if (!Patience.join(running, LONGEST_LOOK)) {
      throw new TimeoutException(
          ErrorId.STILL_RUNNING,
          "%s has not ended within %s".formatted(running.getName(), Patience.text(LONGEST_LOOK)),
          "report this with the output of jstack");
    }
  }
}
