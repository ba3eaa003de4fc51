package org.nccl4j.device.cuda.stream;

import java.util.function.LongSupplier;
import org.nccl4j.device.support.Patience;

/**
 * Finds the rank that a communicator's kernels wait for now. Threads that wait for long write so
 * again and again, each time with the time; a report that does not change any more is of a wait
 * that has ended. Any thread.
 */
public final class SlowWaitProbe {
  /** Longer than a thread takes from one word to the next: 1,024 looks. */
  private static final int LOOKS = 10;

  private static final long PAUSE_NANOS = 2_000_000;

  private final LongSupplier word;
  private final LongSupplier clock;
  private long known;
  private long answered; // of the clock
  private int answer = -1;

  /**
   * Creates the probe of a communicator.
   *
   * @param word nccl4jControl's waiting
   */
  public SlowWaitProbe(LongSupplier word) {
    this(word, System::nanoTime);
  }

  /** Creates a probe as the other constructor does, with a clock in nanoseconds. */
  SlowWaitProbe(LongSupplier word, LongSupplier clock) {
    this.word = word;
    this.clock = clock;
  }

  /** The rank that one of them waits for; -1 if none does. May take 20 ms. */
  public synchronized int rank() {
    long first = word.getAsLong();
    if (first == known) {
      boolean fresh = clock.getAsLong() - answered < LOOKS * PAUSE_NANOS;
      return fresh ? answer : -1;
    }
    known = first;
    answer = -1;
    for (int look = 0; look < LOOKS && answer < 0; look++) {
      Patience.sleep(PAUSE_NANOS);
      long now = word.getAsLong();
      if (now != first) {
        known = now;
        answer = (int) (now >>> 16 & 0xffff);
      }
    }
    answered = clock.getAsLong();
    return answer;
  }
}
