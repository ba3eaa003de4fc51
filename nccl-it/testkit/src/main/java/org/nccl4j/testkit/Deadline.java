package org.nccl4j.testkit;

import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.nccl4j.device.support.Patience;

/** Repeats steps that never wait until they have had their effect, for as long as is bearable. */
final class Deadline {
  private static final long SECONDS = 60;

  /** Time that stored data may take to be seen. */
  private static final long DATA_SECONDS = 10;

  /** Time that a closed resource may take to be gone; after it, the resource has leaked. */
  private static final long END_SECONDS = 30;

  private static final long PAUSE_NANOS = 50_000;

  private Deadline() {}

  /** Waits for data that another thread or process has stored already. */
  static void awaitData(BooleanSupplier seen, Supplier<String> missing) {
    await(DATA_SECONDS, seen, missing);
  }

  static void await(BooleanSupplier done, Supplier<String> missing) {
    await(SECONDS, done, missing);
  }

  /** Waits for threads that close their resources soon after they were told to. */
  static void awaitEnd(BooleanSupplier gone, Supplier<String> left) {
    await(END_SECONDS, gone, left);
  }

  private static void await(long seconds, BooleanSupplier done, Supplier<String> missing) {
    long start = System.nanoTime();
    while (!done.getAsBoolean()) {
      Expect.that(
          System.nanoTime() - start < TimeUnit.SECONDS.toNanos(seconds),
          "not within %d s: %s",
          seconds,
          missing.get());
      Patience.sleep(PAUSE_NANOS);
    }
  }
}
