package org.nccl4j.api.observe;

import static org.junit.jupiter.api.Assertions.assertEquals;

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
    List<RankReport.Operation> operations = new ArrayList<>();
    for (int n = 1; n <= launched; n++) {
      operations.add(new RankReport.Operation(n, n, "all_reduce", 0, n, 4, "sum of " + n));
    }
    return new RankReport(
        new RankReport.ProcessReport("h", 1 + rank, "S"),
        7,
        "c",
        rank,
        nRanks,
        launched,
        ended,
        upTo,
        waitsFor,
        1500,
        0,
        false,
        new RankReport.Front(0, 0, 0, 0),
        operations,
        List.of(),
        RankReport.Links.NONE);
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

  /** A damaged recorder may say so. */
  @Test
  void manyRanksThatNothingIsKnownOfAreCounted() {
    assertEquals(
        "communicator c: no operation is in progress; no data of ranks 1, 2, 3, 4, 5, 6, 7, 8 and"
            + " 2147483638 more, whose processes have ended or closed it, or run elsewhere",
        say(report(0, Integer.MAX_VALUE, 0, 0, 0, -1)));
  }
}
