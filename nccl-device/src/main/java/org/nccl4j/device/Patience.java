package org.nccl4j.device;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * Waits of a length that a user gives. A length beyond the clock's range is the longest that the
 * clock can measure. An interruption does not shorten a wait, since the caller frees next what the
 * awaited thread uses; the thread is interrupted again when the wait is over.
 */
public final class Patience {
  /** About 146 years: twice of it is still a difference of two times of {@link System#nanoTime}. */
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

  /** A length for people: "250 ms", "1.5 s", "60 s", "10 min". */
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

  /** Waits for the end of a thread; returns whether it has ended within the time. */
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

  /** Waits until something is so; returns whether it is, within the time. */
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
   * Lets some time pass on a thread of this library, or less if the thread is unparked. Forgets an
   * interruption, which is of what a user's code did on the thread: it would make all waits short.
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

  /** Lets some time pass, also on a thread that has been interrupted. */
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
