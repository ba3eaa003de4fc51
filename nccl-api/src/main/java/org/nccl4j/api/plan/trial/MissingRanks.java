package org.nccl4j.api.plan.trial;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * Decides when to tell of ranks that have not joined an agreement and so prevent trials. They may
 * be late only: a rank of a GPU launches hundreds of calls in a millisecond, while another still
 * prepares its first. Owner: the thread that launches.
 */
final class MissingRanks {
  /** Prevented trials before anything is told. */
  static final int PREVENTED = 3;

  /** From the first of them until something is told while calls go on. */
  static final long LATE_NANOS = TimeUnit.SECONDS.toNanos(30);

  private final TrialAgreement agreement;
  private final LongSupplier nanoTime;
  private int prevented;
  private long sinceNanos;
  private boolean told;

  /**
   * None is missed yet.
   *
   * @param nanoTime as {@link System#nanoTime}
   */
  MissingRanks(TrialAgreement agreement, LongSupplier nanoTime) {
    this.agreement = agreement;
    this.nanoTime = nanoTime;
  }

  /** A trial was wanted, and not made. */
  void prevented() {
    if (!agreement.isComplete()) {
      sinceNanos = prevented == 0 ? nanoTime.getAsLong() : sinceNanos;
      prevented++;
    }
  }

  /** The ranks to tell of now, during calls; empty if nothing is to be told. */
  List<Integer> during() {
    return isPrevented() && nanoTime.getAsLong() - sinceNanos >= LATE_NANOS ? due() : List.of();
  }

  /**
   * The same after all calls of this rank have ended: by then the other ranks have made them, too.
   */
  List<Integer> after() {
    return isPrevented() ? due() : List.of();
  }

  private boolean isPrevented() {
    return prevented >= PREVENTED && !told;
  }

  private List<Integer> due() {
    told = true; // or another rank tells, or all have joined, which they do not undo
    return agreement.isFirst() ? agreement.missing() : List.of();
  }
}
