package org.nccl4j.device.cuda;

import java.util.concurrent.locks.LockSupport;
import java.util.function.LongSupplier;

/**
 * For whom a communicator's kernels wait now. Threads that wait for long write so again and again,
 * each time with the time; what does not change any more is of a wait that has ended. Any thread.
 */
final class LongWaits {
  /** Longer than a thread takes from one word to the next: 1,024 looks. */
  private static final int LOOKS = 10;

  private static final long PAUSE_NANOS = 2_000_000;

  private final LongSupplier word;
  private long known;
  private long answered; // System.nanoTime
  private int answer = -1;

  /**
   * Of a communicator.
   *
   * @param word nccl4jControl's waiting
   */
  LongWaits(LongSupplier word) {
    this.word = word;
  }

  /** The rank that one of them waits for; -1 if none does. May take 20 ms. */
  synchronized int rank() {
    long first = word.getAsLong();
    if (first == known) {
      boolean fresh = System.nanoTime() - answered < LOOKS * PAUSE_NANOS;
      return fresh ? answer : -1;
    }
    known = first;
    answer = -1;
    for (int look = 0; look < LOOKS && answer < 0; look++) {
      LockSupport.parkNanos(PAUSE_NANOS);
      long now = word.getAsLong();
      if (now != first) {
        known = now;
        answer = (int) (now >>> 16 & 0xffff);
      }
    }
    answered = System.nanoTime();
    return answer;
  }
}
