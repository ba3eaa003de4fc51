package org.nccl4j.device.support;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.nccl4j.device.HotPath;

/**
 * Waits for a time that a user gives. A time beyond the clock's range is the longest that the clock
 * can measure. An interruption does not shorten a wait, since the caller then frees memory that the
 * awaited thread uses; the thread is interrupted again when the wait is over.
 */
public final class Patience {
  /**
   * About 146 years: twice this time is still a valid difference of two values of {@link
   * System#nanoTime}.
   */
  private static final long LONGEST_NANOS = Long.MAX_VALUE / 2;

  private static final Duration LONGEST = Duration.ofNanos(LONGEST_NANOS);
  private static final long POLL_NANOS = 50_000;
  private static final long MINUTE_MILLIS = 60_000;

  private Patience() {}

  /** A length in nanoseconds; 0 for a negative one. */
  public static long nanos(Duration length) {
    if (length.isNegative()) {
      return 0;
    }
    return length.compareTo(LONGEST) >= 0 ? LONGEST_NANOS : length.toNanos();
  }

  /** A length in milliseconds; 0 for a negative one. */
  public static long millis(Duration length) {
    return nanos(length) / 1_000_000;
  }

  /** A length as text: "250 ms", "1.5 s", "60 s", "10 min". */
  public static String text(Duration length) {
    long millis = millis(length);
    if (millis < 1000) {
      return millis + " ms";
    }
    if (millis >= 2 * MINUTE_MILLIS && millis % MINUTE_MILLIS == 0) {
      return millis / MINUTE_MILLIS + " min";
    }
    long tenths = (millis + 50) / 100;
    return tenths / 10 + (tenths % 10 == 0 ? "" : "." + tenths % 10) + " s";
  }

  /** The time of {@link System#nanoTime} when a wait that begins now is over. */
  public static long end(Duration length) {
    return System.nanoTime() + nanos(length);
  }

  /** Waits for the end of a thread; returns true if it has ended within the time. */
  public static boolean join(Thread thread, Duration length) {
    long end = end(length);
    boolean interrupted = false;
    try {
      while (true) {
        try {
          TimeUnit.NANOSECONDS.timedJoin(thread, Math.max(1, end - System.nanoTime()));
          return !thread.isAlive();
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** Waits until a condition holds; returns true if it does within the time. */
  public static boolean until(BooleanSupplier condition, Duration length) {
    long end = end(length);
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() - end >= 0) {
        return false;
      }
      sleep(POLL_NANOS);
    }
    return true;
  }

  /**
   * Waits for some time on a thread of this library, or less if the thread is unparked. Clears an
   * interruption, which user code may have left on the thread: it would make all waits short.
   */
  @HotPath
  public static void parkOwn(Object blocker, long nanos) {
    LockSupport.parkNanos(blocker, nanos);
    Thread.interrupted();
  }

  /** Waits on a thread of this library until it is unparked; as {@link #parkOwn(Object, long)}. */
  @HotPath
  public static void parkOwn(Object blocker) {
    LockSupport.park(blocker);
    Thread.interrupted();
  }

  /** Waits for some time, also on a thread that has been interrupted. */
  @HotPath
  public static void sleep(long nanos) {
    if (Thread.interrupted()) {
      LockSupport.parkNanos(1); // ends at once: an interruption leaves a permit behind
      LockSupport.parkNanos(nanos);
      Thread.currentThread().interrupt();
    } else {
      LockSupport.parkNanos(nanos);
    }
  }
}
