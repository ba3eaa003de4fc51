package org.nccl4j.api.plan.trial;

import java.util.List;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.device.HotPath;

/**
 * The calls of one shape and size that are measured. In each period the last call but one is
 * measured with the chosen algorithm, and the last one with another; these take turns. All ranks
 * have the same schedule, since it is made from predicted times. By their measured times trials are
 * left out, and made in a later period ({@link TrialBudget}).
 *
 * @param period calls from one trial to the next
 * @param choices the chosen algorithm, then those that are tried
 */
record TrialSchedule(long period, List<AlgorithmChoice> choices) {
  /** The call is not measured. */
  static final int UNMEASURED = -1;

  /** The index of the chosen algorithm. */
  static final int CHOSEN = 0;

  /** The most that trials may add to the time of a shape's calls, but for the last one. */
  static final double SHARE = 0.005;

  /** A tried algorithm may take so many times what is predicted before the share is passed. */
  static final double ERROR = 2;

  /** Slower ones, as predicted, are not worth a trial. */
  static final double MOST_TIMES = 3;

  /** Trials of each algorithm, after which it is tried no more. */
  static final int TRIALS = 16;

  /** Periods, after which ranks of one machine try no more, whatever was tried. */
  static final int ROUNDS = 2048;

  /** Algorithms that are tried at most. */
  static final int MOST_TRIED = 3;

  /**
   * A schedule of a shape; without trials where a tuner demands an algorithm by the time 0, of
   * which there is no share.
   *
   * @param allowed the chosen algorithm, then the others, the fastest first, as predicted
   */
  static TrialSchedule of(List<AlgorithmChoice> allowed) {
    double chosen = allowed.get(CHOSEN).microseconds();
    if (!(chosen > 0)) {
      return new TrialSchedule(1, List.of(allowed.get(CHOSEN)));
    }
    List<AlgorithmChoice> choices =
        allowed.stream()
            .filter(choice -> choice.microseconds() <= MOST_TIMES * chosen)
            .limit(1 + MOST_TRIED)
            .toList();
    double slowest =
        choices.stream().mapToDouble(AlgorithmChoice::microseconds).max().orElse(chosen);
    double extra = Math.max(1, ERROR * slowest / chosen - 1);
    return new TrialSchedule((long) Math.ceil(extra / SHARE), choices);
  }

  /**
   * The index of the algorithm by which a call is measured, or {@link #UNMEASURED}.
   *
   * @param call its number among the calls of the shape, from 0
   */
  @HotPath
  int of(long call) {
    long left = period - 1 - call % period;
    int tried = choices.size() - 1;
    if (left > 1 || tried == 0) {
      return UNMEASURED;
    }
    return left == 1 ? CHOSEN : tried(round(call));
  }

  /** The number of the trial that a call may be, from 0. */
  int round(long call) {
    return (int) (call / period);
  }

  /** The index of the algorithm that a round's trial has. */
  int tried(int round) {
    return 1 + round % (choices.size() - 1);
  }

  /** Calls of the shape up to a round's trial, with it. */
  long calls(int round) {
    return period * (round + 1);
  }

  /**
   * True if what is measured may be taken for a call on other buffers, which may lie in other
   * windows or in none.
   *
   * @param allowed the call's own, as in {@link #of(List)}
   */
  boolean fits(List<AlgorithmChoice> allowed) {
    return allowed.get(CHOSEN).equals(choices.get(CHOSEN)) && allowed.containsAll(choices);
  }
}
