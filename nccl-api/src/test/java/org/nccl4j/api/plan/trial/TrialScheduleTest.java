package org.nccl4j.api.plan.trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Protocol;

class TrialScheduleTest {
  private static final long CALLS = 100_000;

  private static List<AlgorithmChoice> choices(double... microseconds) {
    List<AlgorithmChoice> choices = new ArrayList<>();
    for (double time : microseconds) {
      choices.add(new AlgorithmChoice(Algorithm.values()[choices.size()], Protocol.SIMPLE, time));
    }
    return choices;
  }

  /** At every point of a job, with random predictions that are wrong by a factor of 2. */
  @Test
  void trialsTakeAtMostHalfAPerCentOfTheTime() {
    Random random = new Random(26);
    for (int round = 0; round < 200; round++) {
      double chosen = 1 + 100 * random.nextDouble();
      TrialSchedule schedule =
          TrialSchedule.of(
              choices(
                  chosen,
                  chosen * (1 + random.nextDouble()),
                  chosen * (2 + random.nextDouble()),
                  chosen * 4));
      double extra = 0;
      for (long call = 0; call < CALLS; call++) {
        int index = schedule.of(call);
        if (index > TrialSchedule.CHOSEN) {
          extra += 2 * schedule.choices().get(index).microseconds() - chosen;
          assertTrue(extra <= 0.005 * chosen * (call + 1), schedule + " at call " + call);
        }
      }
    }
  }

  /** One rank, whose calls take the same time each. */
  private static final class Simulated {
    private final TrialSchedule schedule;
    private final TrialBudget budget;
    private final double[] times;
    private final int[] tried;
    private double extra;
    private double last;
    private long call;

    Simulated(TrialSchedule schedule, double[] times) {
      this.schedule = schedule;
      this.budget = new TrialBudget(schedule);
      this.times = times;
      this.tried = new int[schedule.choices().size()];
    }

    /**
     * Makes further calls, and after each compares the time that trials have added with the share.
     *
     * @param late calls after which a trial has been measured
     */
    void run(long further, int late) {
      double chosen = times[TrialSchedule.CHOSEN];
      List<Integer> underWay = new ArrayList<>();
      List<Long> ends = new ArrayList<>();
      for (long end = call + further; call < end; call++) {
        while (!ends.isEmpty() && ends.get(0) <= call) {
          ends.remove(0);
          int index = underWay.remove(0);
          budget.measured(index, times[index]);
        }
        int index = schedule.of(call);
        if (index == TrialSchedule.CHOSEN) {
          budget.measured(index, chosen);
        } else if (index > TrialSchedule.CHOSEN) {
          double spent =
              budget.known() == budget.tried() ? budget.spent() : Double.POSITIVE_INFINITY;
          if (budget.allows(index, spent, call + 1)) {
            check(extra, call);
            budget.tried(index, /* isMeasured= */ true);
            tried[index]++;
            last = Math.max(0, times[index] - chosen);
            extra += last;
            underWay.add(index);
            ends.add(call + late);
          }
        }
        check(extra - last, call);
      }
    }

    private void check(double spent, long after) {
      double share = 0.005 * times[TrialSchedule.CHOSEN] * (after + 1);
      assertTrue(spent <= share + 1e-6, () -> this + " at call " + after);
    }

    @Override
    public String toString() {
      return schedule + ", really " + Arrays.toString(times);
    }
  }

  /** At every point of a job: no more than the last trial is beyond the share. */
  @Test
  void predictionsThatAreWrongByAFactorOfFiftyCostOneTrialMore() {
    Random random = new Random(26);
    for (int round = 0; round < 12; round++) {
      double chosen = 1 + 100 * random.nextDouble();
      double[] predicted = {chosen, chosen * (1 + random.nextDouble()), chosen * 2, chosen * 2.9};
      double[] times = predicted.clone();
      for (int index = 1; index < times.length; index++) {
        times[index] *= random.nextInt(3) == 0 ? Math.pow(50, random.nextDouble()) : 1;
      }
      times[1 + round % 3] = 50 * predicted[1 + round % 3];
      Simulated job = new Simulated(TrialSchedule.of(choices(predicted)), times);
      job.run(800_000, 1 + random.nextInt(3000));
      for (int index = 1; index < times.length; index++) {
        assertTrue(job.tried[index] >= TrialBudget.FIRST, job + ": " + Arrays.toString(job.tried));
      }
    }
  }

  /** The first trial is in the first period, which has at most a thousand calls. */
  @Test
  void nothingWaitsBeforeTheFirstTrial() {
    TrialSchedule schedule = TrialSchedule.of(choices(10, 29));
    Simulated job = new Simulated(schedule, new double[] {10, 29 * 50});
    job.run(1000, 1);
    assertEquals(1, job.tried[1]);
    job.run(1000, 1);
    assertEquals(1, job.tried[1], "it waits for 28,800 calls");
  }

  @Test
  void eachAlgorithmIsTriedEquallyOftenBesideTheChosenOne() {
    TrialSchedule schedule = TrialSchedule.of(choices(10, 11, 12, 40));
    assertEquals(3, schedule.choices().size(), "four times the chosen one's time is too long");
    int before = TrialSchedule.UNMEASURED;
    for (long call = 0; call < CALLS; call++) {
      int index = schedule.of(call);
      if (index != TrialSchedule.UNMEASURED) {
        assertEquals(index > 0, before == TrialSchedule.CHOSEN, "a trial follows a measured call");
      }
      before = index;
    }
    Simulated job = new Simulated(schedule, new double[] {10, 11, 12});
    job.run(2 * TrialSchedule.TRIALS * schedule.period(), 1);
    assertEquals(TrialSchedule.TRIALS, job.tried[1]);
    assertEquals(TrialSchedule.TRIALS, job.tried[2]);
    assertTrue(job.budget.isOver());
    job.run(CALLS, 1);
    assertEquals(TrialSchedule.TRIALS, job.tried[1]);
    long calls = schedule.calls(7);
    assertEquals(7, schedule.round(calls - 1), "the last of its period");
    assertEquals(schedule.tried(7), schedule.of(calls - 1));
  }

  @Test
  void whereThereIsNoOtherAlgorithmNothingIsMeasured() {
    TrialSchedule schedule = TrialSchedule.of(choices(10, 40));
    for (long call = 0; call < CALLS; call++) {
      assertEquals(TrialSchedule.UNMEASURED, schedule.of(call));
    }
  }

  /** Tuners of NCCL demand an algorithm by the time 0. */
  @Test
  void whereATunerDemandsAnAlgorithmNothingIsTried() {
    for (double demanded : new double[] {0, -1}) {
      TrialSchedule schedule = TrialSchedule.of(choices(demanded, 0, 11));
      for (long call = 0; call < CALLS; call++) {
        assertEquals(TrialSchedule.UNMEASURED, schedule.of(call));
      }
    }
  }

  @Test
  void aScheduleFitsCallsWithTheSameChoices() {
    TrialSchedule schedule = TrialSchedule.of(choices(10, 11));
    assertTrue(schedule.fits(choices(10, 11, 12)));
    assertFalse(schedule.fits(choices(10)), "the other one is not allowed");
    assertFalse(schedule.fits(choices(9, 11)), "another is chosen");
  }
}
