package org.nccl4j.api.observe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Operation;

/** Notices of waiting ranks of other hosts: when they are sent, and when they are a conflict. */
class RemoteCallsTest {
  private static final int LOOK = 50;

  private static RankReport report(int rank, long ended, Operation... operations) {
    return new RankReport(
        new RankReport.ProcessReport("host", 1, ""),
        7,
        "seven",
        rank,
        2,
        ended + 1,
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

  private static Operation sum(long number, long collective) {
    return new Operation(number, collective, "all_reduce", 0, 1, 4, "a sum");
  }

  private static CallNotice notice(long collective, String text) {
    return new CallNotice(7, 1, collective, text);
  }

  @Test
  void aNoticeTravels() {
    CallNotice sent = notice(1L << 40, "all_reduce of 8 float (sum)");
    assertEquals(Optional.of(sent), CallNotice.decode(sent.encode()));
    assertFalse(CallNotice.decode(new byte[] {OrderNotice.KIND, 0}).isPresent());
    assertFalse(CallNotice.decode(new byte[] {CallNotice.KIND, 0}).isPresent(), "it is cut off");
  }

  @Test
  void anotherCallOfTheSameNumberIsAConflictIfASecondLookFindsIt() {
    RemoteCalls calls = new RemoteCalls(0);
    RankReport mine = report(0, 2, sum(3, 2));
    assertFalse(calls.look(RemoteCallsTest::never).isPresent(), "nothing was heard");
    calls.hear(notice(2, "a maximum"));
    assertFalse(calls.look(() -> mine).isPresent());
    CallConflict found = calls.look(() -> mine).orElseThrow();
    assertEquals("as collective 2 rank 0 calls a sum and rank 1 calls a maximum", found.clause());
  }

  @Test
  void aCallThatThisRankMakesLaterIsComparedThen() {
    RemoteCalls calls = new RemoteCalls(0);
    calls.hear(notice(3, "a maximum"));
    RankReport before = report(0, 2, sum(3, 2));
    assertFalse(calls.look(() -> before).isPresent());
    assertFalse(calls.look(() -> before).isPresent());
    RankReport after = report(0, 3, sum(3, 2), sum(4, 3));
    assertFalse(calls.look(() -> after).isPresent());
    assertTrue(calls.look(() -> after).isPresent());
  }

  @Test
  void equalCallsAndForgottenOnesAreLookedAtOnce() {
    RemoteCalls calls = new RemoteCalls(0);
    calls.hear(notice(2, "a sum"));
    assertFalse(calls.look(() -> report(0, 2, sum(3, 2))).isPresent());
    assertFalse(calls.look(RemoteCallsTest::never).isPresent());
    calls.hear(notice(1, "a maximum"));
    assertFalse(calls.look(() -> report(0, 2, sum(3, 2))).isPresent());
    assertFalse(calls.look(RemoteCallsTest::never).isPresent());
  }

  private static int sent(RemoteCalls calls, RankReport report, long fromMillis, long toMillis) {
    int sent = 0;
    for (long now = fromMillis; now < toMillis; now += LOOK) {
      sent += calls.due(report.ended(), now, () -> report).isPresent() ? 1 : 0;
    }
    return sent;
  }

  @Test
  void aRankSaysSoMoreAndMoreSeldom() {
    RemoteCalls calls = new RemoteCalls(0);
    RankReport mine = report(0, 2, sum(3, 2));
    assertEquals(0, sent(calls, mine, 0, RemoteCalls.FIRST_MILLIS));
    assertEquals(1, sent(calls, mine, RemoteCalls.FIRST_MILLIS, RemoteCalls.FIRST_MILLIS + 500));
    int inTenMinutes = sent(calls, mine, RemoteCalls.FIRST_MILLIS + 500, 600_000);
    assertTrue(inTenMinutes > 5 && inTenMinutes < 40, inTenMinutes + " notices in 10 minutes");
  }

  @Test
  void aRankThatHasHeardOfAnEqualCallIsSilent() {
    RemoteCalls calls = new RemoteCalls(0);
    RankReport mine = report(0, 2, sum(3, 2));
    calls.hear(notice(2, "a sum"));
    assertFalse(calls.look(() -> mine).isPresent());
    assertEquals(0, sent(calls, mine, 0, 600_000));
    RankReport next = report(0, 3, sum(4, 3));
    assertTrue(sent(calls, next, 600_000, 610_000) > 0, "the next call is another one");
  }

  @Test
  void aRankThatWaitsForNobodyForLongIsSilent() {
    RemoteCalls calls = new RemoteCalls(0);
    for (long now = 0; now < 60_000; now += LOOK) {
      long ended = now / RemoteCalls.FIRST_MILLIS;
      assertFalse(calls.due(ended, now, RemoteCallsTest::never).isPresent());
      assertFalse(calls.due(-1, now + 1, RemoteCallsTest::never).isPresent());
    }
  }

  private static RankReport never() {
    throw new AssertionError("there is nothing to read it for");
  }
}
