package org.nccl4j.api.plan.trial;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Ranks that have not joined: they are late, or never come. */
class MissingRanksTest {
  private static final List<Integer> NONE = List.of();

  @TempDir Path folder;
  private long nanos = Long.MAX_VALUE - 1;

  private TrialAgreement join(int rank) throws IOException {
    return TrialAgreement.join(
        folder, /* communicator= */ 1, rank, /* nRanks= */ 3, /* shapes= */ 1);
  }

  private MissingRanks of(TrialAgreement agreement) {
    return new MissingRanks(agreement, () -> nanos);
  }

  private static void prevent(MissingRanks missing, int trials) {
    for (int trial = 0; trial < trials; trial++) {
      missing.prevented();
    }
  }

  /** Launches are asynchronous: many calls say nothing about the time. */
  @Test
  void aRankThatIsLateIsNotTold() throws IOException {
    try (TrialAgreement first = join(0)) {
      MissingRanks missing = of(first);
      prevent(missing, 1000);
      assertEquals(NONE, missing.during());
      nanos += MissingRanks.LATE_NANOS - 1;
      prevent(missing, 1);
      assertEquals(NONE, missing.during());
      join(1);
      join(2);
      nanos += 2;
      assertEquals(NONE, missing.during());
      assertEquals(NONE, missing.after());
    }
  }

  @Test
  void ranksThatDoNotComeAreToldOnceByTheFirst() throws IOException {
    try (TrialAgreement first = join(1)) {
      MissingRanks missing = of(first);
      MissingRanks other = of(join(2));
      prevent(missing, MissingRanks.PREVENTED);
      prevent(other, MissingRanks.PREVENTED);
      nanos += MissingRanks.LATE_NANOS;
      assertEquals(NONE, other.during());
      assertEquals(List.of(0), missing.during());
      assertEquals(NONE, missing.during());
      assertEquals(NONE, missing.after());
      assertEquals(NONE, other.after());
    }
  }

  /** All calls have ended, so the other ranks have made them. */
  @Test
  void aShortJobIsToldAtItsEnd() throws IOException {
    try (TrialAgreement first = join(0)) {
      MissingRanks missing = of(first);
      prevent(missing, MissingRanks.PREVENTED - 1);
      assertEquals(NONE, missing.after());
      prevent(missing, 1);
      assertEquals(NONE, missing.during());
      assertEquals(List.of(1, 2), missing.after());
      assertEquals(NONE, missing.after());
    }
  }
}
