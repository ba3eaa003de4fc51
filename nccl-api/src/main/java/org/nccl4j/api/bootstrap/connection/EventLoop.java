package org.nccl4j.api.bootstrap.connection;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.nio.channels.ClosedSelectorException;
import java.nio.channels.SelectableChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.time.Duration;
import java.util.PriorityQueue;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.nccl4j.api.wire.Sockets;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.support.DaemonThread;
import org.nccl4j.device.support.Patience;

/**
 * The one thread of a process that waits for all sockets of all its bootstraps: started by the
 * first user, ended when the last has released it. It never blocks on one peer, so a slow or
 * hostile one does not delay others.
 *
 * <p>Owner of everything registered with it: handlers, tasks and timers run on its thread alone.
 */
public final class EventLoop implements Runnable {
  private static final System.Logger LOG = DebugLog.of("BOOTSTRAP");

  /** Between a turn that failed, for lack of memory perhaps, and the next. */
  private static final long PAUSE_NANOS = 10_000_000;

  /** Handler that is called when its channel can make progress. */
  interface Handler {
    void ready(SelectionKey key);

    /** True while it sends or reads the last before it closes; the loop goes on for a while. */
    default boolean isFinishing() {
      return false;
    }
  }

  /** Something to run later; ends with the loop. */
  public final class Timer implements Comparable<Timer> {
    private final long at;
    private final Runnable task;

    private Timer(long at, Runnable task) {
      this.at = at;
      this.task = task;
    }

    /** Forgets it; on the loop's thread. */
    public void cancel() {
      timers.remove(this);
    }

    @Override
    public int compareTo(Timer other) {
      return Long.compare(at - other.at, 0);
    }
  }

  /** The longest that a connection may take to be flushed and read to its end. */
  static final Duration LINGER = Duration.ofSeconds(1);

  private static EventLoop shared;

  private final Selector selector;
  private final Thread thread;
  private final Queue<Runnable> tasks = new ConcurrentLinkedQueue<>();
  private final PriorityQueue<Timer> timers = new PriorityQueue<>();
  private int users;
  private volatile boolean released;
  private volatile long releasedNanos;

  private EventLoop() {
    try {
      selector = Selector.open();
    } catch (IOException e) {
      throw new SystemErrorException(
          ErrorId.OPEN_FILES,
          "no selector for the bootstrap's sockets can be opened: " + e.getMessage(),
          "raise the limit of open files (ulimit -n)",
          e);
    }
    thread = DaemonThread.of(this, "nccl4j-bootstrap");
    boolean started = false;
    try {
      thread.start();
      started = true;
    } finally {
      if (!started) {
        Sockets.close(selector);
      }
    }
  }

  /** The process's loop, for a caller that will {@link #release} it. */
  public static EventLoop acquire() {
    synchronized (EventLoop.class) {
      if (shared == null || !shared.thread.isAlive()) {
        shared = new EventLoop();
      }
      shared.users++;
      return shared;
    }
  }

  /** Once for each {@link #acquire}, after the channels of that user have been closed. */
  public void release() {
    synchronized (EventLoop.class) {
      if (--users == 0) {
        shared = shared == this ? null : shared;
        releasedNanos = System.nanoTime();
        released = true;
        selector.wakeup();
      }
    }
  }

  /** Runs a task on the loop's thread, soon. */
  public void execute(Runnable task) {
    tasks.add(task);
    selector.wakeup();
  }

  /** True if the caller is the loop. */
  public boolean isCurrent() {
    return Thread.currentThread() == thread;
  }

  /** Runs a task on the loop's thread after a delay; on the loop's thread. */
  public Timer after(Duration delay, Runnable task) {
    Timer timer = new Timer(Deadline.after(delay).nanoTime(), task);
    timers.add(timer);
    return timer;
  }

  /**
   * Registers a handler that is called when its channel is ready for the operations; on the loop's
   * thread.
   */
  SelectionKey register(SelectableChannel channel, int operations, Handler handler)
      throws IOException {
    channel.configureBlocking(false);
    return channel.register(selector, operations, handler);
  }

  /** Makes the loop notice a channel that was closed elsewhere, so that its descriptor goes. */
  void wakeup() {
    selector.wakeup();
  }

  @Override
  public void run() {
    try {
      boolean goesOn = true;
      while (goesOn) {
        goesOn = guardedTurn();
      }
    } finally {
      closeSelector();
    }
  }

  /** Not even an error of the log ends it: this thread serves all communicators. */
  private boolean guardedTurn() {
    try {
      turn();
      return !released || !tasks.isEmpty() || lingers();
    } catch (Throwable e) {
      Patience.sleep(PAUSE_NANOS);
      return !released || System.nanoTime() - releasedNanos < LINGER.toNanos();
    }
  }

  /** True while the last message may still be on its way after the last user has gone. */
  private boolean lingers() {
    return System.nanoTime() - releasedNanos < LINGER.toNanos()
        && selector.keys().stream()
            .anyMatch(
                key -> key.isValid() && key.attachment() instanceof Handler h && h.isFinishing());
  }

  private void turn() {
    try {
      selector.select(EventLoop::dispatch, millisToWait());
    } catch (IOException | ClosedSelectorException e) {
      LOG.log(Level.ERROR, "the bootstrap's selector failed", e);
      Patience.sleep(PAUSE_NANOS);
    }
    runTimers();
    for (Runnable task = tasks.poll(); task != null; task = tasks.poll()) {
      guarded(task);
    }
  }

  private long millisToWait() {
    if (!tasks.isEmpty() || released) {
      return 1;
    }
    Timer next = timers.peek();
    return next == null ? 0 : Math.max(1, (next.at - System.nanoTime()) / 1_000_000 + 1);
  }

  private void runTimers() {
    for (Timer next = timers.peek();
        next != null && next.at - System.nanoTime() <= 0;
        next = timers.peek()) {
      timers.poll();
      guarded(next.task);
    }
  }

  private static void dispatch(SelectionKey key) {
    if (key.isValid()) {
      guarded(() -> ((Handler) key.attachment()).ready(key));
    }
  }

  /** A defect in one connection's handling must not stop the others'. */
  private static void guarded(Runnable task) {
    try {
      task.run();
    } catch (RuntimeException | Error e) {
      LOG.log(Level.ERROR, "a defect in the bootstrap; please report it", e);
    }
  }

  private void closeSelector() {
    try {
      for (SelectionKey key : selector.keys()) {
        key.channel().close();
      }
      selector.close();
    } catch (IOException e) {
      LOG.log(Level.WARNING, "the bootstrap's selector does not close", e);
    }
  }
}
