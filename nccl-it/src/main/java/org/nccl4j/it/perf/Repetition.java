package org.nccl4j.it.perf;

/**
 * The number of runs of an operation for one figure: some operations without the clock, then rounds
 * of iterations with it. The figure is the median of the rounds' means, so that one disturbance by
 * another program does not decide it.
 *
 * @param warmup operations before each round
 * @param iterations timed in each round
 * @param rounds how many
 */
record Repetition(int warmup, int iterations, int rounds) {
  private static final double ROUND_MICROS = 15_000;
  private static final double LONGEST_ROUND_MICROS = 500_000;
  private static final int ROUNDS = 5;

  /**
   * Enough for a stable figure: five rounds of 5 iterations and 15 ms at least, unless that were to
   * last too long.
   *
   * @param micros what an operation is expected to take
   */
  static Repetition automatic(double micros) {
    double time = Math.max(micros, 0.05);
    double wanted = Math.max(5, ROUND_MICROS / time);
    double affordable = Math.max(3, LONGEST_ROUND_MICROS / time);
    int iterations = (int) Math.min(100_000, Math.min(wanted, affordable));
    return new Repetition(Math.max(1, iterations / 5), iterations, ROUNDS);
  }

  /** Returns the numbers of iterations that the user gives. */
  static Repetition fixed(int warmup, int iterations) {
    return new Repetition(warmup, iterations, 1);
  }

  /** The same with another warm-up. */
  Repetition withWarmup(int newWarmup) {
    return new Repetition(newWarmup, iterations, rounds);
  }
}
