package org.nccl4j.api.init.ahead;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Warm-up calls that a process makes before its program's first, so that the JVM has compiled their
 * code. A creation of several ranks waits for their end before the ranks' last exchange, so that
 * all ranks return from it at the same time. Any thread may call.
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
