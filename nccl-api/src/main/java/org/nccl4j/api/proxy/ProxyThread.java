package org.nccl4j.api.proxy;

import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;

/**
 * Gives a communicator's proxy handlers their turns. One daemon thread, which sleeps the longer the
 * longer none of them had anything to do.
 */
public final class ProxyThread implements AutoCloseable {
  private static final int BUSY_ROUNDS = 1000;
  private static final long SHORTEST_SLEEP_NANOS = 20_000;
  private static final long LONGEST_SLEEP_NANOS = 1_000_000;

  private final List<ProxyHandler> handlers;
  private final Consumer<NcclException> onFailure;
  private final Thread thread;
  private volatile boolean stopped;

  private ProxyThread(String name, List<ProxyHandler> handlers, Consumer<NcclException> onFailure) {
    this.handlers = handlers;
    this.onFailure = onFailure;
    this.thread = new Thread(this::run, "nccl4j-proxy-" + name);
    this.thread.setDaemon(true);
  }

  /**
   * A running thread.
   *
   * @param onFailure told, once, of a handler's error, after which none is called again
   */
  public static ProxyThread start(
      String name, List<ProxyHandler> handlers, Consumer<NcclException> onFailure) {
    ProxyThread proxy = new ProxyThread(name, List.copyOf(handlers), onFailure);
    proxy.thread.start();
    return proxy;
  }

  private void run() {
    int idle = 0;
    long sleep = SHORTEST_SLEEP_NANOS;
    try {
      while (!stopped) {
        if (doWork() > 0) {
          idle = 0;
          sleep = SHORTEST_SLEEP_NANOS;
        } else if (++idle < BUSY_ROUNDS) {
          Thread.yield();
        } else {
          LockSupport.parkNanos(this, sleep);
          sleep = Math.min(2 * sleep, LONGEST_SLEEP_NANOS);
        }
      }
    } catch (NcclException e) {
      onFailure.accept(e);
    } catch (RuntimeException | Error e) {
      onFailure.accept(
          new InternalErrorException(
              "a proxy handler failed unexpectedly (" + e + ")", "report it to its author", e));
    }
  }

  private int doWork() {
    int done = 0;
    for (ProxyHandler handler : handlers) {
      done += handler.doWork();
    }
    return done;
  }

  /** Stops it and waits for it, for a second at most. */
  @Override
  public void close() {
    stopped = true;
    LockSupport.unpark(thread);
    try {
      thread.join(1000);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
