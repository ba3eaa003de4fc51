package org.nccl4j.api.plan.trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.plan.algorithm.AlgorithmChoice;
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

  @Test
  void eachAlgorithmIsTriedEquallyOftenBesideTheChosenOne() {
    TrialSchedule schedule = TrialSchedule.of(choices(10, 11, 12, 40));
    assertEquals(3, schedule.choices().size(), "four times the chosen one's time is too long");
    int[] counts = new int[3];
    int before = TrialSchedule.UNMEASURED;
    long last = 0;
    for (long call = 0; call < CALLS; call++) {
      int index = schedule.of(call);
      if (index != TrialSchedule.UNMEASURED) {
        counts[index]++;
        last = call;
        assertEquals(index > 0, before == TrialSchedule.CHOSEN, "a trial follows a measured call");
      }
      before = index;
    }
    assertEquals(2 * TrialSchedule.TRIALS, counts[0]);
    assertEquals(TrialSchedule.TRIALS, counts[1]);
    assertEquals(TrialSchedule.TRIALS, counts[2]);
    assertEquals(2 * TrialSchedule.TRIALS * schedule.period() - 1, last);
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
