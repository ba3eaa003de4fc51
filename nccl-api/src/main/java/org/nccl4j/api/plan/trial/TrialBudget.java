package org.nccl4j.api.plan.trial;

import java.util.Arrays;

/**
 * A rank's measured costs of the trials of one shape. The first trials of an algorithm show what it
 * costs; further ones are due only while all trials together have added no more than {@link
 * TrialSchedule#SHARE} to the time of the calls. Costs are in times of a call by the chosen
 * algorithm. Of each algorithm the least measured time counts: other work on the machine makes
 * single calls longer, of any algorithm. Owner: the thread that launches.
 */
final class TrialBudget {
  /** The trials of an algorithm that are made whatever they cost, as a table needs them. */
  static final int FIRST = 3;

  private final TrialSchedule schedule;
  private final double[] least;
  private final int[] measured;
  private final int[] tried;

  /** Nothing has been tried yet. */
  TrialBudget(TrialSchedule schedule) {
    this.schedule = schedule;
    int n = schedule.choices().size();
    least = new double[n];
    Arrays.fill(least, Double.POSITIVE_INFINITY);
    measured = new int[n];
    tried = new int[n];
  }

  /** Counts a trial, which may not have ended. */
  void tried(int index) {
    tried[index]++;
  }

  /**
   * Takes the time of a call.
   *
   * @param index of its algorithm in the schedule
   */
  void measured(int index, double microseconds) {
    measured[index]++;
    least[index] = Math.min(least[index], microseconds);
  }

  /** Calls by the chosen algorithm that would take as long as the trials have taken longer. */
  double spent() {
    double spent = 0;
    for (int index = 1; index < tried.length; index++) {
      spent += tried[index] * extra(index);
    }
    return spent;
  }

  /**
   * The calls by the chosen algorithm that a trial takes longer, as measured, or else as predicted.
   */
  private double extra(int index) {
    double chosen = least[TrialSchedule.CHOSEN];
    double times =
        measured[index] > 0 && chosen > 0 && chosen < Double.POSITIVE_INFINITY
            ? least[index] / chosen
            : TrialSchedule.ERROR
                * schedule.choices().get(index).microseconds()
                / schedule.choices().get(TrialSchedule.CHOSEN).microseconds();
    return Math.max(0, times - 1);
  }

  /**
   * True for the first trials of an algorithm, which all ranks find due.
   *
   * @param index of the algorithm
   */
  boolean isFirst(int index) {
    return tried[index] < FIRST;
  }

  /**
   * True if this rank finds a trial due.
   *
   * @param index of the algorithm
   * @param spent the most that a rank has found spent
   * @param calls of the shape, with this one
   */
  boolean allows(int index, double spent, long calls) {
    if (isFirst(index)) {
      return true;
    }
    // A trial that has not ended may have become slower.
    return measured[index] > 0 && spent + extra(index) <= TrialSchedule.SHARE * calls;
  }
}
