package org.nccl4j.api.plan.trial;

import java.util.Arrays;

/**
 * A rank's measured costs of the trials of one shape. The next trial, of any algorithm, is due only
 * once all trials before it have been measured, and have added no more than {@link
 * TrialSchedule#SHARE} to the time of the calls. So at any time no more than the last trial is
 * beyond that share: one of the first of its algorithm, which show what it costs. Costs are in
 * times of a call by the chosen algorithm. Of each algorithm the least measured time counts: other
 * work on the machine makes single calls longer, of any algorithm. Owner: the thread that launches.
 */
final class TrialBudget {
  /** The trials of an algorithm that a table needs. They may pass the share, one at a time. */
  static final int FIRST = 3;

  private final TrialSchedule schedule;
  private final double[] least;
  private final int[] measured;
  private final int[] tried;

  /** Trials whose time is to come. */
  private int underWay;

  /** Nothing has been tried yet. */
  TrialBudget(TrialSchedule schedule) {
    this.schedule = schedule;
    int n = schedule.choices().size();
    least = new double[n];
    Arrays.fill(least, Double.POSITIVE_INFINITY);
    measured = new int[n];
    tried = new int[n];
  }

  /**
   * Counts a trial.
   *
   * @param isMeasured true if {@link #measured} follows when it has ended
   */
  void tried(int index, boolean isMeasured) {
    tried[index]++;
    underWay += isMeasured ? 1 : 0;
  }

  /**
   * Takes the time of a call.
   *
   * @param index of its algorithm in the schedule
   */
  void measured(int index, double microseconds) {
    measured[index]++;
    least[index] = Math.min(least[index], microseconds);
    underWay -= index == TrialSchedule.CHOSEN ? 0 : 1;
  }

  /** All trials; the same on all ranks at the same call. */
  int tried() {
    return Arrays.stream(tried).sum();
  }

  /** Trials whose cost is among what is {@link #spent}. */
  int known() {
    return tried() - underWay;
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

  /** True for the first trials of an algorithm. */
  boolean isFirst(int index) {
    return tried[index] < FIRST;
  }

  /** True once all trials have been made; the same on all ranks at the same call. */
  boolean isOver() {
    return Arrays.stream(tried).skip(1).allMatch(times -> times >= TrialSchedule.TRIALS);
  }

  /**
   * True if this rank finds a trial due.
   *
   * @param index of the algorithm
   * @param spent as all ranks together have found; infinite if one has not measured all trials
   * @param calls of the shape, with this one
   */
  boolean allows(int index, double spent, long calls) {
    return spent <= room(index, calls);
  }

  /**
   * The most that may be spent before a trial; below 0 if the algorithm is tried no more.
   *
   * @param index of the algorithm
   * @param calls of the shape, with the trial
   */
  double room(int index, long calls) {
    if (tried[index] >= TrialSchedule.TRIALS) {
      return Double.NEGATIVE_INFINITY;
    }
    return TrialSchedule.SHARE * calls - (isFirst(index) ? 0 : extra(index));
  }
}
