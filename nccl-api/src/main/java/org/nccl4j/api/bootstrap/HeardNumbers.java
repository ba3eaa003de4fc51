package org.nccl4j.api.bootstrap;

/**
 * The numbers of the notices that have come from a rank. Two threads of the rank may send theirs in
 * another order than they were numbered, so up to {@value #WINDOW} numbers below the highest may
 * still come. Not thread-safe.
 */
final class HeardNumbers {
  static final int WINDOW = 64;

  private long highest;

  /** Bit i stands for the number {@code highest - i}. */
  private long seen;

  /** Counts a number, which begin at 1; true if it has not come before. */
  boolean isFirst(long number) {
    long below = highest - number;
    if (below >= WINDOW) {
      return false;
    }
    if (below < 0) {
      seen = -below < WINDOW ? seen << -below : 0;
      highest = number;
      below = 0;
    }
    long bit = 1L << below;
    boolean first = (seen & bit) == 0;
    seen |= bit;
    return first;
  }
}
