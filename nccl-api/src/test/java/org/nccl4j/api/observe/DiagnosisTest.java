package org.nccl4j.api.observe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.observe.flight.RankReport;

/** The diagnosis of GPUs, whose progress is known between two bounds. */
class DiagnosisTest {
  private static RankReport report(int rank, long launched, long ended, long upTo, int waitsFor) {
    return report(rank, 2, launched, ended, upTo, waitsFor);
  }

  private static RankReport report(
      int rank, int nRanks, long launched, long ended, long upTo, int waitsFor) {
    return report(rank, nRanks, launched, ended, upTo, waitsFor, new State("S", 1500, false));
  }

  /** A rank's process's state, the time in its operation, and its failure. */
  private record State(String process, long stillMillis, boolean failed) {}

  private static RankReport report(
      int rank, int nRanks, long launched, long ended, long upTo, int waitsFor, State state) {
    List<RankReport.Operation> operations = new ArrayList<>();
    for (int n = 1; n <= launched; n++) {
      operations.add(new RankReport.Operation(n, n, "all_reduce", 0, n, 4, "sum of " + n));
    }
    return new RankReport(
        new RankReport.ProcessReport("h", 1 + rank, state.process()),
        7,
        "c",
        rank,
        nRanks,
        launched,
        ended,
        upTo,
        waitsFor,
        state.stillMillis(),
        0,
        state.failed(),
        new RankReport.Front(0, 0, 0, 0),
        operations,
        List.of(),
        RankReport.Links.NONE,
        "",
        RankReport.Replays.NONE);
  }

  private static String say(RankReport... reports) {
    return Diagnosis.sentence(List.of(reports));
  }

  @Test
  void whoCalledLessThanAnotherMayBeInIsNamed() {
    assertEquals(
        "communicator c: rank 1 called 4 collectives, and rank 0 is in one of operations 3 to 6,"
            + " the first of them sum of 3",
        say(report(0, 6, 2, 6, -1), report(1, 4, 2, 4, -1)));
  }

  @Test
  void whoCalledLessThanAnotherIsInForSureIsNamedSo() {
    assertEquals(
        "communicator c: rank 1 never called collective 5 (sum of 5); the last of rank 1 was"
            + " operation 4, sum of 4, which has ended",
        say(report(0, 6, 4, 6, -1), report(1, 4, 4, 4, -1)));
  }

  @Test
  void theRankThatAKernelWaitedForIsInOneOfSeveralOperations() {
    assertEquals(
        "communicator c: rank 1 is in one of operations 2 to 5, the first of them sum of 2, and"
            + " waits for no rank, perhaps for work before it in its stream; rank 0 waits for rank 1"
            + " in operation 3, sum of 3, for 1.5 s",
        say(report(0, 5, 2, 3, 1), report(1, 5, 1, 5, -1)));
  }

  private static RankReport report(int rank, long launched, long ended, int waitsFor, State state) {
    return report(rank, 2, launched, ended, ended + 1, waitsFor, state);
  }

  @Test
  void aProgramThatRunsIsNotBehindWhereRecordersAreReadAtDifferentMoments() {
    RankReport[] reports = {
      report(0, 294, 292, 1, new State("S", 20, false)),
      report(1, 349, 348, 0, new State("R", 999, false))
    };
    assertEquals(
        "communicator c: operations are in progress, each for less than a second; no rank is behind",
        say(reports));
    assertTrue(Diagnosis.isHealthy(List.of(reports)));
  }

  @Test
  void ranksThatAreBehindStoppedOrFailedOrWaitForLongAreUnhealthy() {
    State still = new State("S", 1000, false);
    State still60 = new State("S", 60_000, false);
    RankReport waits = report(0, 5, 4, 1, still);
    assertFalse(Diagnosis.isHealthy(List.of(waits, report(1, 4, 4, -1, still))));
    assertTrue(Diagnosis.isHealthy(List.of(waits, report(1, 5, 4, 0, still))));
    assertFalse(Diagnosis.isHealthy(List.of(waits, report(1, 5, 5, -1, still))));
    assertTrue(Diagnosis.isHealthy(List.of(waits)));
    assertFalse(Diagnosis.isHealthy(List.of(report(0, 5, 4, 1, still60))));
    RankReport stopped = report(1, 4, 4, -1, new State("T", 0, false));
    assertFalse(Diagnosis.isHealthy(List.of(stopped)));
    assertEquals(
        "communicator c: rank 1 is stopped (process 2 on h); no operation is in progress; no data"
            + " of rank 0, whose processes have ended or closed it, or run elsewhere",
        say(stopped));
  }

  @Test
  void aRankThatHasFailedCountsAtOnce() {
    RankReport failed = report(0, 5, 4, 1, new State("S", 20, true));
    RankReport late = report(1, 4, 4, -1, new State("S", 0, true));
    assertEquals(
        "communicator c: rank 1 never called collective 5 (sum of 5); the last of rank 1 was"
            + " operation 4, sum of 4, which has ended; rank 0 waits for rank 1 in operation 5, sum"
            + " of 5, for 0.0 s; ranks 0, 1 have failed",
        say(failed, late));
    assertFalse(Diagnosis.isHealthy(List.of(failed, late)));
  }

  /** A damaged recorder may say so. */
  @Test
  void manyRanksThatNothingIsKnownOfAreCounted() {
    assertEquals(
        "communicator c: no operation is in progress; no data of ranks 1, 2, 3, 4, 5, 6, 7, 8 and"
            + " 2147483638 more, whose processes have ended or closed it, or run elsewhere",
        say(report(0, Integer.MAX_VALUE, 0, 0, 0, -1)));
  }
}
