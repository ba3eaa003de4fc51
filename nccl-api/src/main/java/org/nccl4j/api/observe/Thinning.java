package org.nccl4j.api.observe;

/**
 * The operations of one rank that a recording has: all, or one of 2, 4, 8 and so on where the rank
 * launches more in a second than a recording is to have. They follow from their numbers by a hash,
 * so that ranks record the same collectives, and of a loop with several collectives each. What is
 * recorded of 8 is also recorded of 4, so ranks that count differently have some in common.
 *
 * <p>The observer's thread looks, the launching thread asks.
 */
final class Thinning {
  /** Fibonacci's hash: successive numbers are spread evenly. */
  private static final long MULTIPLIER = 0x9E37_79B9_7F4A_7C15L;

  /** As many numbers are looked at for the next one kept. */
  private static final int MOST_AHEAD = 4096;

  private static final double SECOND_NANOS = 1e9;
  private static final int MOST_BITS = 30;

  /** A burst after a shorter time than this says nothing about the rate. */
  private static final long LEAST_NANOS = 50_000_000;

  private final int rate;
  private long launched;
  private long lastNanos;

  /** Read by the launching thread, which may see an older one. */
  private volatile int bits;

  /**
   * Leaves out nothing yet.
   *
   * @param rate operations a second that are recorded; 0: all
   * @param nanos time of the first look, at which nothing was launched
   */
  Thinning(int rate, long nanos) {
    this.rate = rate;
    this.lastNanos = nanos;
  }

  /** True if an operation is recorded. */
  boolean keeps(long number) {
    int left = bits;
    return left == 0 || number * MULTIPLIER >>> Long.SIZE - left == 0;
  }

  /** Returns how many numbers from this one on are left out for certain, at most 4,096. */
  int leftOutFrom(long number) {
    int left = bits;
    if (left == 0) {
      return 0;
    }
    long hash = number * MULTIPLIER;
    int ahead = 0;
    while (ahead < MOST_AHEAD && hash >>> Long.SIZE - left != 0) {
      hash += MULTIPLIER;
      ahead++;
    }
    return ahead;
  }

  /** One of so many operations is recorded. */
  long every() {
    return 1L << bits;
  }

  /**
   * Takes the operations that were launched so far. Leaves out more at once, and fewer step by
   * step.
   *
   * @param nanos time of the look
   */
  void look(long launchedSoFar, long nanos) {
    long elapsed = nanos - lastNanos;
    if (rate == 0 || elapsed <= 0) {
      return;
    }
    double most = rate * (Math.max(elapsed, LEAST_NANOS) / SECOND_NANOS);
    double some = launchedSoFar - launched;
    int needed = 0;
    while (needed < MOST_BITS && some > most * (1L << needed)) {
      needed++;
    }
    bits = Math.max(needed, bits - 1);
    launched = launchedSoFar;
    lastNanos = nanos;
  }

  /** Takes a number of operations that were launched before the next look. */
  void countFrom(long launchedSoFar) {
    launched = launchedSoFar;
  }
}
