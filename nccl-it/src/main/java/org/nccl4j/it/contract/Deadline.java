package org.nccl4j.it.contract;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;

/** Repeats steps that never wait until they have had their effect, for as long as is bearable. */
final class Deadline {
  private static final long SECONDS = 60;
  private static final long PAUSE_NANOS = 50_000;

  private Deadline() {}

  static void await(BooleanSupplier done, Supplier<String> missing) {
    long start = System.nanoTime();
    while (!done.getAsBoolean()) {
      Expect.that(
          System.nanoTime() - start < TimeUnit.SECONDS.toNanos(SECONDS),
          "not within %d s: %s",
          SECONDS,
          missing.get());
      LockSupport.parkNanos(PAUSE_NANOS);
    }
  }
}
