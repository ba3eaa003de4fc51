package org.nccl4j.it.api;

import java.time.Duration;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.function.ThrowingConsumer;

/** Repeats a test with a longer deadline: a busy machine may not run its threads within one. */
public final class LongerDeadline {
  private static final int TRIES = 3;
  private static final int FACTOR = 5;

  private LongerDeadline() {}

  /** Runs a test with this deadline and, where it fails, with 5 and 25 times as long ones. */
  public static void retry(Duration shortest, ThrowingConsumer<Duration> test) throws Throwable {
    Duration deadline = shortest;
    for (int tries = 1; tries < TRIES; tries++) {
      try {
        test.accept(deadline);
        return;
      } catch (AssertionError | RuntimeException | ExecutionException e) {
        System.out.println("failed with a deadline of " + deadline + ": " + e);
      }
      deadline = deadline.multipliedBy(FACTOR);
    }
    test.accept(deadline);
  }
}
