package org.nccl4j.testkit;

import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.nccl4j.device.support.Patience;

/**
 * Repeats steps that never wait until they have had their effect, for as long as is bearable. Time
 * in which the machine stands still counts little.
 */
final class Deadline {
  private static final long SECONDS = 60;

  /** Time that stored data may take to be seen. */
  private static final long DATA_SECONDS = 10;

  /** Time that a closed resource may take to be gone; after it, the resource has leaked. */
  private static final long END_SECONDS = 30;

  private static final long PAUSE_NANOS = 50_000;

  /** Between looks at what may have leaked, each of which collects garbage. */
  private static final long LONGEST_PAUSE_NANOS = 2_000_000_000L;

  /** The most that a look and the rest of the machine may take of the time between two pauses. */
  private static final long LOOK_NANOS = 100_000_000;

  private Deadline() {}

  /** Waits for data that another thread or process has stored already. */
  static void awaitData(BooleanSupplier seen, Supplier<String> missing) {
    await(DATA_SECONDS, PAUSE_NANOS, seen, missing);
  }

  static void await(BooleanSupplier done, Supplier<String> missing) {
    await(SECONDS, PAUSE_NANOS, done, missing);
  }

  /**
   * Waits for threads that close their resources soon after they were told to. Pauses grow: what is
   * not gone at once is seldom gone a moment later.
   */
  static void awaitEnd(BooleanSupplier gone, Supplier<String> left) {
    await(END_SECONDS, LONGEST_PAUSE_NANOS, gone, left);
  }

  private static void await(
      long seconds, long longestPause, BooleanSupplier done, Supplier<String> missing) {
    long waited = 0;
    long before = System.nanoTime();
    long pause = PAUSE_NANOS;
    while (!done.getAsBoolean()) {
      Expect.that(
          waited < TimeUnit.SECONDS.toNanos(seconds),
          "not within %d s: %s",
          seconds,
          missing.get());
      Patience.sleep(pause);
      long now = System.nanoTime();
      waited += Math.min(now - before, pause + LOOK_NANOS);
      before = now;
      pause = Math.min(2 * pause, longestPause);
    }
  }
}
