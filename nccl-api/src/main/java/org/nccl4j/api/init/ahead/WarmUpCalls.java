package org.nccl4j.api.init.ahead;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Calls that a process makes ahead of its program's, so that the JVM has compiled them. A creation
 * of several ranks waits for them before the ranks' last exchange: then all ranks return from it at
 * the same time, and none waits for another's calls in its program's first. Any thread may call.
 */
public final class WarmUpCalls {
  /** Most time that a creation waits. */
  private static final long PATIENCE_MILLIS = 5_000;

  private static volatile CompletableFuture<?> calls = CompletableFuture.completedFuture(null);

  private WarmUpCalls() {}

  /**
   * Tells of calls that begin.
   *
   * @param ended completed when they have ended, in whatever way
   */
  public static void begin(CompletableFuture<?> ended) {
    calls = ended;
  }

  /** Waits for the end of the calls, at most 5 s; returns at once if the thread is interrupted. */
  public static void await() {
    try {
      calls.get(PATIENCE_MILLIS, TimeUnit.MILLISECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } catch (ExecutionException | TimeoutException e) {
      // The program's first calls take longer.
    }
  }
}
