package org.nccl4j.device.cuda.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A wait that goes on is told from one that has ended. */
@Timeout(600)
class SlowWaitProbeTest {
  private static long word(long time, int rank) {
    return time << 32 | (long) rank << 16 | 5 << 8 | 1;
  }

  @Test
  void whatIsWrittenAgainAndAgainIsAWait() {
    AtomicLong time = new AtomicLong();
    SlowWaitProbe waits = new SlowWaitProbe(() -> word(time.incrementAndGet(), 3));
    assertEquals(3, waits.rank());
    assertEquals(3, waits.rank());
  }

  @Test
  void whatStaysIsOfAWaitThatHasEnded() {
    AtomicLong now = new AtomicLong();
    SlowWaitProbe waits = new SlowWaitProbe(now::get);
    assertEquals(-1, waits.rank(), "nothing was ever written");
    now.set(word(7, 2));
    assertEquals(-1, waits.rank());
    assertEquals(-1, waits.rank());
  }

  @Test
  void whoAsksTwiceBetweenTwoWordsIsToldTheSame() {
    AtomicLong asked = new AtomicLong();
    AtomicLong time = new AtomicLong();
    SlowWaitProbe waits =
        new SlowWaitProbe(() -> word(Math.min(2, asked.incrementAndGet()), 4), time::get);
    assertEquals(4, waits.rank());
    time.set(19_999_999);
    assertEquals(4, waits.rank());
    time.set(20_000_000);
    assertEquals(-1, waits.rank(), "it has not been written again for long");
  }

  @Test
  void anInterruptedThreadLooksAsSlowlyAsOthers() {
    AtomicLong now = new AtomicLong();
    SlowWaitProbe waits = new SlowWaitProbe(now::get);
    waits.rank();
    now.set(word(7, 2));
    Thread.currentThread().interrupt();
    long begin = System.nanoTime();
    assertEquals(-1, waits.rank());
    long nanos = System.nanoTime() - begin;
    assertTrue(Thread.interrupted(), "it stays interrupted");
    assertTrue(nanos > 10_000_000, () -> "it looked for " + nanos + " ns");
  }
}
