package org.nccl4j.api.proxy;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.IntSupplier;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.Progress;
import org.nccl4j.device.support.DaemonThread;
import org.nccl4j.device.support.Patience;

/**
 * Runs a communicator's proxy handlers. Kernels of the host device run them while they wait; one
 * daemon thread finishes the remaining work, and sleeps without work. It polls handlers for GPUs at
 * all times, since their kernels, which a graph may launch again, do not notify it: continuously
 * while there is work, after a while with short sleeps between. One thread at a time is inside.
 */
public final class ProxyThread implements Progress {
  private static final System.Logger LOG = DebugLog.of("NET");
  private static final VarHandle INSIDE;

  /** Those of all communicators of the process that have begun and not been stopped. */
  private static final Set<ProxyThread> RUNNING = ConcurrentHashMap.newKeySet();

  /** Turns of a kernel that has ended: to wake the thread takes longer. */
  private static final int TURNS_AFTER_KERNEL = 4;

  private static final int BUSY_ROUNDS = 1000;
  private static final long SHORTEST_SLEEP_NANOS = 20_000;
  private static final long LONGEST_SLEEP_NANOS = 1_000_000;

  /**
   * Longest sleep where kernels cannot say that they wait: the first step of a graph may be this
   * late.
   */
  private static final long LONGEST_POLLED_SLEEP_NANOS = 200_000;

  /** A turn does not wait for other ranks, but a busy machine may run its thread late. */
  private static final Duration LONGEST_TURN = Duration.ofSeconds(30);

  static {
    try {
      INSIDE = MethodHandles.lookup().findVarHandle(ProxyThread.class, "inside", int.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private volatile ProxyHandler[] handlers;

  /** True if a handler has to be called at all times. */
  private volatile boolean polled;

  /** Check for steps that come unasked, at all times; null if there is none. */
  private volatile IntSupplier unasked;

  private final Thread thread;
  private volatile Consumer<NcclException> onFailure = failure -> {};

  /** 1 while a thread gives turns, else 0. */
  private volatile int inside;

  private volatile boolean over;

  /** True once handlers may be closed. Read by a thread that is inside. */
  private volatile boolean stopped;

  /** True if the thread does not look for a while. */
  private volatile boolean asleep;

  private final Duration longestTurn;

  /** A thread that is not running yet. */
  public ProxyThread(String name, List<ProxyHandler> handlers) {
    this(name, handlers, LONGEST_TURN);
  }

  /** One that waits for so long for a turn to end. */
  ProxyThread(String name, List<ProxyHandler> handlers, Duration longestTurn) {
    this.longestTurn = longestTurn;
    this.handlers = handlers.toArray(ProxyHandler[]::new);
    this.polled = handlers.stream().anyMatch(ProxyHandler::isPolled);
    this.thread = DaemonThread.of(this::run, "nccl4j-proxy-" + name);
  }

  /**
   * Sets the listener for a handler's error; called before any work.
   *
   * @param listener receives a failure, once; then no handler is called again
   */
  public void onFailure(Consumer<NcclException> listener) {
    onFailure = listener;
  }

  /** Begins to work. */
  public void start() {
    RUNNING.add(this);
    thread.start();
  }

  /**
   * Gives turns to more handlers too, and to what comes from other ranks although no kernel waits
   * for it.
   *
   * @param arrivals does what can be done now and returns how much it did
   */
  public void attend(List<ProxyHandler> more, IntSupplier arrivals) {
    attend(more);
    unasked = arrivals;
    LockSupport.unpark(thread);
  }

  /** Gives turns to more handlers too. */
  public synchronized void attend(List<ProxyHandler> more) {
    List<ProxyHandler> all = new ArrayList<>(Arrays.asList(handlers));
    all.addAll(more);
    handlers = all.toArray(ProxyHandler[]::new);
    polled = all.stream().anyMatch(ProxyHandler::isPolled);
    LockSupport.unpark(thread);
  }

  /**
   * Looks for what comes unasked no longer.
   *
   * @return whether nothing is done with it any more; false if a turn does not end
   */
  public boolean neglect() {
    unasked = null;
    return awaitOutside();
  }

  @Override
  @HotPath
  public int doWork() {
    if (!INSIDE.compareAndSet(this, 0, 1)) {
      return 0;
    }
    NcclException failure;
    try {
      return over ? 0 : giveTurns();
    } catch (RuntimeException | Error e) {
      failure = failure(e);
    } finally {
      INSIDE.setRelease(this, 0);
    }
    onFailure.accept(failure);
    return 0;
  }

  private static NcclException failure(Throwable error) {
    return error instanceof NcclException known
        ? known
        : new InternalErrorException(
            "a proxy handler failed unexpectedly (" + error + ")",
            "report it to its author",
            error);
  }

  private int giveTurns() {
    boolean ended = false;
    try {
      int done = 0;
      for (ProxyHandler handler : handlers) {
        done += handler.doWork();
      }
      IntSupplier arrivals = unasked;
      done += arrivals == null ? 0 : arrivals.getAsInt();
      ended = true;
      return done;
    } finally {
      if (!ended) {
        over = true;
      }
    }
  }

  @Override
  @HotPath
  public void kernelLaunched() {
    if (polled && asleep) {
      LockSupport.unpark(thread);
    }
  }

  /** {@inheritDoc} If a turn does not end, the kernel finds that its buffers are still in use. */
  @Override
  public void endExposures() {
    withEach(handlers, ProxyHandler::endExposures);
  }

  /**
   * Ends what is being received in windows.
   *
   * @return false if a turn does not end, or a receive does not
   */
  public boolean endReceives(List<ProxyHandler> some) {
    return withEach(some.toArray(ProxyHandler[]::new), ProxyHandler::endReceives);
  }

  /**
   * Memory of the user has been deregistered: the networks of all communicators of the process
   * forget it, since those of each may know what was registered with another.
   */
  public static void forgetBuffers() {
    for (ProxyThread each : RUNNING) {
      each.withEach(each.handlers, handler -> each.forgetBuffers(handler));
    }
  }

  private void forgetBuffers(ProxyHandler handler) {
    if (!stopped) {
      handler.forgetBuffers();
    }
  }

  /**
   * Does something with each handler while no other thread is inside.
   *
   * @return false if it was not done with all
   */
  private boolean withEach(ProxyHandler[] some, Consumer<ProxyHandler> what) {
    if (!Patience.until(() -> INSIDE.compareAndSet(this, 0, 1), longestTurn)) {
      return false;
    }
    boolean all = true;
    try {
      for (ProxyHandler handler : some) {
        try {
          what.accept(handler);
        } catch (NcclException e) {
          // The kernel has failed already, with an error that says why.
          all = false;
          LOG.log(System.Logger.Level.DEBUG, "buffers are still in use: {0}", e.getMessage());
        }
      }
    } finally {
      INSIDE.setRelease(this, 0);
    }
    return all;
  }

  @Override
  @HotPath
  public void kernelEnded() {
    for (int turn = 0; turn < TURNS_AFTER_KERNEL; turn++) {
      if (!isLeft()) {
        return;
      }
      doWork();
    }
    if (isLeft()) {
      LockSupport.unpark(thread);
    }
  }

  /** True if handlers have something to do, and are given turns. */
  private boolean isLeft() {
    return !over && isUnderWay();
  }

  @HotPath
  private boolean isUnderWay() {
    try {
      for (ProxyHandler handler : handlers) {
        if (handler.isUnderWay()) {
          return true;
        }
      }
    } catch (RuntimeException | Error e) {
      over = true;
      onFailure.accept(failure(e));
    }
    return false;
  }

  private void run() {
    int idle = 0;
    long sleep = SHORTEST_SLEEP_NANOS;
    while (!over) {
      if (!isUnderWay() && unasked == null && !polled) {
        Patience.parkOwn(this);
        idle = 0;
      } else if (doWork() > 0) {
        idle = 0;
        sleep = SHORTEST_SLEEP_NANOS;
      } else if (idle < BUSY_ROUNDS) {
        idle++;
        Thread.yield();
      } else {
        asleep = true;
        Patience.parkOwn(this, sleep);
        asleep = false;
        sleep = Math.min(2 * sleep, polled ? LONGEST_POLLED_SLEEP_NANOS : LONGEST_SLEEP_NANOS);
      }
    }
  }

  /** True if what kernels have left is done. */
  public boolean isIdle() {
    return over || !isUnderWay();
  }

  /**
   * Stops it, and waits for its thread and others that give turns.
   *
   * @return whether handlers and their memory are in use no more
   */
  public boolean stop() {
    RUNNING.remove(this);
    stopped = true;
    over = true;
    LockSupport.unpark(thread);
    return Patience.join(thread, longestTurn) && awaitOutside();
  }

  /** Waits until no thread is inside; returns whether none is, in time. */
  private boolean awaitOutside() {
    return Patience.until(() -> inside == 0, longestTurn);
  }
}
