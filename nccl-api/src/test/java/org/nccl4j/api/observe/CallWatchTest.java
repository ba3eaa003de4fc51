package org.nccl4j.api.observe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Operation;

/** The moment at which ranks that wait are compared, and the waits that count. */
class CallWatchTest {
  private static RankReport report(int rank, long launched, long ended, Operation... operations) {
    return new RankReport(
        new RankReport.ProcessReport("host", 1, ""),
        7,
        "seven",
        rank,
        2,
        launched,
        ended,
        ended + 1,
        1 - rank,
        0,
        0,
        false,
        new RankReport.Front(0, 0, 0, 0),
        List.of(operations),
        List.of(),
        RankReport.Links.NONE,
        "",
        RankReport.Replays.NONE);
  }

  private static Operation call(long number, long collective, String label, String text) {
    return new Operation(number, collective, label, 0, 1, 4, text);
  }

  private static final Operation SUM = call(3, 2, "all_reduce", "a sum");
  private static final Operation MAX = call(2, 2, "all_reduce", "a maximum");
  private static final Operation SEND = call(2, 1, "send", "a send");

  @Test
  void theSameCollectiveIsComparedWhateverElseTheRanksCalled() {
    List<RankReport> ranks = List.of(report(0, 3, 2, SEND, SUM), report(1, 2, 1, MAX));
    CallConflict found = CallConflict.of(ranks, 0).orElseThrow();
    assertEquals("as collective 2 rank 0 calls a sum and rank 1 calls a maximum", found.clause());
    assertTrue(found.error().getMessage().contains(found.clause()));
    assertEquals(found.clause(), CallConflict.between(ranks, 0, 1));
  }

  @Test
  void equalCallsAndThoseThatAreNotKnownAreNoConflict() {
    RankReport mine = report(0, 3, 2, SUM);
    assertFalse(CallConflict.of(List.of(mine, report(1, 9, 8, SUM)), 0).isPresent());
    assertFalse(CallConflict.of(List.of(mine, report(1, 2, 1, SEND)), 0).isPresent());
    assertFalse(CallConflict.of(List.of(mine), 0).isPresent());
    assertEquals("", CallConflict.between(List.of(mine), 0, 1));
    assertEquals(
        "rank 0 is in a sum and rank 1 in a send",
        CallConflict.between(List.of(mine, report(1, 2, 1, SEND)), 0, 1));
  }

  @Test
  void aConflictCountsWhenASecondLookFindsItUnchanged() {
    CallWatch watch = new CallWatch(0);
    RankReport mine = report(0, 3, 2, SUM);
    List<RankReport> torn = List.of(mine, report(1, 2, 1, MAX));
    List<RankReport> later = List.of(mine, report(1, 3, 1, MAX));
    assertFalse(watch.look(2, 0, () -> torn).isPresent());
    long now = CallWatch.FIRST_MILLIS;
    assertFalse(watch.look(2, now, () -> torn).isPresent());
    assertFalse(watch.look(2, now + 50, () -> later).isPresent(), "it launched meanwhile");
    assertTrue(watch.look(2, now + 100, () -> later).isPresent());
  }

  @Test
  void whoDoesNotWaitForLongIsNotLookedAt() {
    CallWatch watch = new CallWatch(0);
    for (long now = 0; now < 10_000; now += 50) {
      long operation = now / CallWatch.FIRST_MILLIS;
      Optional<CallConflict> found = watch.look(operation, now, CallWatchTest::never);
      assertFalse(found.isPresent());
      assertFalse(watch.look(-1, now, CallWatchTest::never).isPresent());
    }
  }

  @Test
  void looksBecomeFewer() {
    CallWatch watch = new CallWatch(0);
    int[] looks = {0};
    for (long now = 0; now < 600_000; now += 50) {
      watch.look(
          5,
          now,
          () -> {
            looks[0]++;
            return List.of();
          });
    }
    assertTrue(looks[0] > 10 && looks[0] < 40, looks[0] + " looks in 10 minutes");
  }

  private static List<RankReport> never() {
    throw new AssertionError("nobody waits");
  }
}
