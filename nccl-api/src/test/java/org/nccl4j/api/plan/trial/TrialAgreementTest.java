package org.nccl4j.api.plan.trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Protocol;

/** Trials that cost more than predicted, on ranks that run and measure at their own pace. */
class TrialAgreementTest {
  private static final int RANKS = 3;
  private static final int SHAPES = 4;
  private static final int SHAPE = 2;
  private static final double CHOSEN_TIME = 10;

  @TempDir Path folder;

  private static TrialSchedule schedule(double... predicted) {
    List<AlgorithmChoice> choices = new ArrayList<>();
    for (double time : predicted) {
      choices.add(new AlgorithmChoice(Algorithm.values()[choices.size()], Protocol.SIMPLE, time));
    }
    return TrialSchedule.of(choices);
  }

  private TrialAgreement join(long communicator, int rank) throws IOException {
    return TrialAgreement.join(folder, communicator, rank, RANKS, SHAPES);
  }

  /** A rank with what it has launched, and what it has not measured yet. */
  private static final class Rank {
    private final TrialSchedule schedule;
    private final TrialBudget budget;
    private final TrialAgreement agreement;
    private final double[] times;
    private final Random random;
    private final Deque<Integer> underWay = new ArrayDeque<>();
    private final List<Boolean> decisions = new ArrayList<>();
    private final int[] tried;
    private long calls;

    Rank(TrialSchedule schedule, TrialAgreement agreement, double[] times, Random random) {
      this.schedule = schedule;
      this.budget = new TrialBudget(schedule);
      this.agreement = agreement;
      this.times = times;
      this.random = random;
      tried = new int[times.length];
    }

    void call() {
      while (!underWay.isEmpty() && random.nextInt(8) > 0) {
        measure(underWay.poll());
      }
      int index = schedule.of(calls);
      if (index > TrialSchedule.CHOSEN) {
        double spent = agreement.spent(SHAPE, budget.tried());
        boolean wanted = budget.allows(index, spent, calls + 1);
        boolean due = agreement.decide(SHAPE, schedule.round(calls), wanted);
        decisions.add(due);
        if (due) {
          budget.tried(index, /* isMeasured= */ true);
          tried[index]++;
          underWay.add(index);
        }
      } else if (index == TrialSchedule.CHOSEN) {
        underWay.add(index);
      }
      calls++;
    }

    /** Now and then other work takes some time, and each rank waits for another time. */
    private void measure(int index) {
      double wait = random.nextInt(4) == 0 ? 50 * random.nextDouble() : random.nextDouble() / 100;
      budget.measured(index, times[index] * (1 + wait));
      agreement.tell(SHAPE, budget.spent(), budget.known());
    }

    /** Time that trials have added, in calls by the chosen algorithm. */
    double added() {
      double added = 0;
      for (int index = 1; index < tried.length; index++) {
        added += tried[index] * (times[index] / CHOSEN_TIME - 1);
      }
      return added;
    }
  }

  @Test
  void allRanksDecideAlikeAndWaitAfterCostlyTrials() throws IOException {
    Random random = new Random(26);
    for (int round = 0; round < 8; round++) {
      TrialSchedule schedule = schedule(CHOSEN_TIME, 11, 12, 13);
      double[] times = {CHOSEN_TIME, 9, 30 * 12 * (1 + random.nextDouble()), 14};
      List<Rank> ranks = new ArrayList<>();
      for (int rank = 0; rank < RANKS; rank++) {
        ranks.add(new Rank(schedule, join(round, rank), times, random));
      }
      long end = 100_000;
      while (ranks.stream().anyMatch(rank -> rank.calls < end)) {
        Rank next = ranks.get(random.nextInt(RANKS));
        long behind = ranks.stream().mapToLong(rank -> rank.calls).min().orElseThrow();
        long most = Math.min(end, behind + random.nextInt((int) schedule.period() * 2));
        while (next.calls < most) {
          next.call();
        }
      }
      String at = "round " + round;
      for (Rank rank : ranks) {
        assertEquals(ranks.get(0).decisions, rank.decisions, at);
        rank.agreement.close();
      }
      Rank one = ranks.get(0);
      assertTrue(one.tried[1] >= TrialBudget.FIRST && one.tried[3] >= TrialBudget.FIRST, at);
      assertTrue(one.tried[2] >= TrialBudget.FIRST, at + ": thirty times as long as predicted");
      double last = times[2] / CHOSEN_TIME - 1;
      assertTrue(one.added() <= TrialSchedule.SHARE * end + last, at + ": " + one.added());
    }
  }

  @Test
  void trialsThatCostWhatIsPredictedAreAllMade() throws IOException {
    TrialSchedule schedule = schedule(CHOSEN_TIME, 11, 12);
    double[] times = {CHOSEN_TIME, 11, 12};
    List<Rank> ranks = new ArrayList<>();
    for (int rank = 0; rank < RANKS; rank++) {
      ranks.add(new Rank(schedule, join(7, rank), times, new Random(26)));
    }
    for (long call = 0; call < 2L * TrialSchedule.TRIALS * schedule.period(); call++) {
      for (Rank rank : ranks) {
        rank.call();
        while (!rank.underWay.isEmpty()) {
          rank.budget.measured(rank.underWay.peek(), times[rank.underWay.poll()]);
        }
        rank.agreement.tell(SHAPE, rank.budget.spent(), rank.budget.known());
      }
    }
    for (Rank rank : ranks) {
      assertEquals(TrialSchedule.TRIALS, rank.tried[1]);
      assertEquals(TrialSchedule.TRIALS, rank.tried[2]);
      rank.agreement.close();
    }
  }

  /** A rank that waits for others takes that for the time of a trial. */
  @Test
  void theLeastCountsOnceAllRanksKnowAllTrials() throws IOException {
    List<TrialAgreement> ranks = List.of(join(9, 0), join(9, 1), join(9, 2));
    assertEquals(0, ranks.get(1).spent(SHAPE, 0));
    ranks.get(0).tell(SHAPE, 7, 1);
    ranks.get(1).tell(SHAPE, 3, 1);
    assertEquals(Double.POSITIVE_INFINITY, ranks.get(0).spent(SHAPE, 1));
    ranks.get(2).tell(SHAPE, 5, 1);
    assertEquals(3, ranks.get(0).spent(SHAPE, 1));
    assertEquals(Double.POSITIVE_INFINITY, ranks.get(0).spent(SHAPE, 2));
    assertEquals(0, ranks.get(0).spent(SHAPE + 1, 0), "another shape");
    ranks.forEach(TrialAgreement::close);
  }

  /** A rank may have another folder of this name, in its container. */
  @Test
  void ranksThatHaveNotAllJoinedTryNothing() throws IOException {
    TrialAgreement first = join(1, 0);
    assertFalse(first.decide(SHAPE, 0, true));
    assertEquals(List.of(1, 2), first.missing());
    TrialAgreement second = join(1, 1);
    assertEquals(List.of(2), first.missing());
    assertTrue(first.isFirst());
    assertFalse(second.isFirst());
    assertFalse(second.decide(SHAPE, 0, true));
    assertFalse(second.decide(SHAPE, 1, true));
    TrialAgreement third = join(1, 2);
    assertEquals(List.of(), second.missing());
    assertFalse(third.decide(SHAPE, 1, true), "it was decided");
    assertTrue(third.decide(SHAPE, 2, true));
    assertTrue(first.decide(SHAPE, 2, false), "it was decided");
    assertFalse(first.decide(SHAPE, 3, false));
    assertFalse(second.decide(SHAPE, 3, true), "it was decided");
    assertTrue(second.decide(SHAPE + 1, 3, true), "another shape");
    first.close();
    second.close();
    assertTrue(third.decide(SHAPE, 4, true), "a rank that has closed stays in the file");
    third.close();
    try (Stream<Path> left = Files.list(folder)) {
      assertEquals(List.of(), left.toList());
    }
  }
}
