package org.nccl4j.transport.net.socket.silence;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.Test;

/** A side that dials, whose watch rests while its rank waits. */
class SilenceTest {
  private static final Duration BOUND = Duration.ofSeconds(8);
  private static final long SECOND = 1_000_000_000L;

  private final Silence silence = new Silence(BOUND, /* dials= */ true, 0);

  @Test
  void restsBetweenWhichNothingComesAreOneSilence() {
    long now = 0;
    for (int rest = 0; rest < 3; rest++) {
      now += SECOND;
      silence.rested(now, 5);
      if (rest < 2) {
        assertFalse(silence.mayAsk(now), "after " + rest);
      }
    }
    assertTrue(silence.mayAsk(now));
    silence.ask(now);
    assertFalse(silence.isDoubtful(now + 4 * SECOND));
    assertTrue(silence.isDoubtful(now + 5 * SECOND));
  }

  @Test
  void whatComesBetweenRestsBeginsAnew() {
    for (int rest = 1; rest < 20; rest++) {
      silence.rested(rest * SECOND, rest);
      assertFalse(silence.mayAsk(rest * SECOND), "after " + rest);
    }
  }
}
