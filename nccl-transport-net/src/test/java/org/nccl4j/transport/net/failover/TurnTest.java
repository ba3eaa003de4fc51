package org.nccl4j.transport.net.failover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** One thread at a time has a turn, and a watch gets it also from one that polls without end. */
@Timeout(600)
class TurnTest {
  private static final Duration LONG = Duration.ofHours(1);

  private final Turn turn = new Turn();

  @Test
  void whoPollsGetsNoTurnBeforeTheWatchThatWaits() throws Exception {
    assertTrue(turn.enter());
    CompletableFuture<Boolean> entered = new CompletableFuture<>();
    Thread watch = new Thread(() -> entered.complete(turn.enterNext(LONG)));
    watch.start();
    while (watch.getState() != Thread.State.TIMED_WAITING) {
      Thread.onSpinWait();
    }
    turn.leave();
    assertFalse(turn.enter(), "the watch waits, or has it");
    assertTrue(entered.get(300, TimeUnit.SECONDS));
    assertFalse(turn.enter());
    turn.leave();
    assertTrue(turn.enter());
  }

  @Test
  void aWatchThatGivesUpLeavesItToOthers() {
    assertTrue(turn.enter());
    assertEquals(false, turn.enterNext(Duration.ofMillis(1)));
    turn.leave();
    assertTrue(turn.enter());
  }
}
