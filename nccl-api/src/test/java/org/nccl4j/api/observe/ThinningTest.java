package org.nccl4j.api.observe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

/** The operations of a fast rank that a recording has. */
class ThinningTest {
  private static final int RATE = 1000;
  private static final long LOOK_NANOS = 50_000_000;
  private static final int LOOKS_A_SECOND = 20;

  private final Thinning thinning = new Thinning(RATE, 0);
  private long launched;
  private long nanos;

  /** Looks again, and has operations been launched at a rate since. */
  private void look(long aSecond) {
    launched += aSecond / LOOKS_A_SECOND;
    nanos += LOOK_NANOS;
    thinning.look(launched, nanos);
  }

  private static long kept(Thinning thinning, LongStream numbers) {
    return numbers.filter(thinning::keeps).count();
  }

  @Test
  void allAreKeptUpToTheRate() {
    look(RATE);
    assertEquals(1, thinning.every());
    assertEquals(100_000, kept(thinning, LongStream.range(0, 100_000)));
  }

  /** The first look may come soon after the first operation. */
  @Test
  void aShortBurstIsKept() {
    thinning.look(RATE / LOOKS_A_SECOND, LOOK_NANOS / 25);
    assertEquals(1, thinning.every());
  }

  @Test
  void moreAreLeftOutAtOnceAndFewerStepByStep() {
    look(100L * RATE);
    assertEquals(128, thinning.every());
    look(0);
    assertEquals(64, thinning.every());
    for (int look = 0; look < 6; look++) {
      look(0);
    }
    assertEquals(1, thinning.every());
  }

  /** Also of each call of a loop with several, whatever their number. */
  @Test
  void aPartOfEachKindIsKept() {
    look(100L * RATE);
    for (int stride = 1; stride <= 16; stride++) {
      for (int kind = 0; kind < stride; kind++) {
        long step = stride;
        long from = kind;
        long kept = kept(thinning, LongStream.range(0, 100_000).map(n -> from + n * step));
        assertTrue(Math.abs(kept - 100_000 / 128) <= 40, kind + " of " + stride + ": " + kept);
      }
    }
  }

  /** Ranks that count differently. */
  @Test
  void ofWhatIsKeptSomeIsKeptByAll() {
    Thinning slower = new Thinning(RATE, 0);
    look(100L * RATE);
    slower.look(5L * RATE / LOOKS_A_SECOND, LOOK_NANOS);
    assertEquals(8, slower.every());
    assertEquals(
        0,
        kept(thinning, LongStream.range(0, 100_000).filter(number -> !slower.keeps(number))),
        "kept here, and not by the slower rank");
  }

  @Test
  void rateZeroKeepsAll() {
    Thinning all = new Thinning(0, 0);
    all.look(1_000_000, 1);
    assertEquals(1, all.every());
  }

  @Test
  void whatIsCountedAnewIsNoBurst() {
    look(RATE);
    thinning.countFrom(0);
    launched = 0;
    look(RATE);
    assertEquals(1, thinning.every());
  }

  @Test
  void whatIsLeftOutIsKnownAhead() {
    assertEquals(0, thinning.leftOutFrom(7));
    look(100L * RATE);
    for (long number = 0; number < 5000; number++) {
      int ahead = thinning.leftOutFrom(number);
      assertTrue(thinning.keeps(number + ahead), number + " and " + ahead);
      assertEquals(0, kept(thinning, LongStream.range(number, number + ahead)));
    }
  }

  @Test
  void aLookAheadIsShort() {
    look(10_000_000L * RATE);
    assertEquals(4096, thinning.leftOutFrom(1));
  }
}
