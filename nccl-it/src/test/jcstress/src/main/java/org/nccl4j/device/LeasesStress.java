package org.nccl4j.device;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.III_Result;
import org.openjdk.jcstress.infra.results.II_Result;

/** Memory is freed once, after its last use. */
public final class LeasesStress {
  private LeasesStress() {}

  /** Memory: its bytes, and whether it is freed. */
  static class Memory {
    int bytes;
    int bytesWhenFreed;
    volatile int frees;
    final Leases leases = Leases.freeing(this::free);

    void free() {
      bytesWhenFreed = bytes;
      frees++;
    }
  }

  /** A use, and a close beside it. */
  @JCStressTest
  @State
  @Outcome(id = "0, 0, 1", expect = Expect.ACCEPTABLE, desc = "Closed before the use.")
  @Outcome(id = "1, 1, 1", expect = Expect.ACCEPTABLE, desc = "Freed after the use.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "Freed under a use, not once, or without its bytes.")
  public static class CloseBesideUse extends Memory {
    /** Uses it. */
    @Actor
    public void use(III_Result r) {
      if (leases.begin()) {
        bytes = 1;
        r.r1 = frees == 0 ? 1 : 2;
        leases.end();
      }
    }

    /** Closes it. */
    @Actor
    public void close() {
      leases.close();
    }

    /** Looks. */
    @Arbiter
    public void look(III_Result r) {
      r.r2 = bytesWhenFreed;
      r.r3 = frees;
    }
  }

  /** A call and its launch, and two who close, one of them after its call. */
  @JCStressTest
  @State
  @Outcome(
      id = {"0, 1", "1, 1"},
      expect = Expect.ACCEPTABLE,
      desc = "Freed once.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "A launch refused, freed under it, or not once.")
  public static class TwoCloseBesideLaunch extends Memory {
    /** Calls, and launches. */
    @Actor
    public void launch(II_Result r) {
      if (leases.begin()) {
        boolean extended = leases.extend();
        leases.end();
        r.r1 = extended && frees == 0 ? 1 : 2;
        if (extended) {
          leases.end();
        }
      }
      leases.close();
    }

    /** Closes it too. */
    @Actor
    public void closeToo() {
      leases.close();
    }

    /** Looks. */
    @Arbiter
    public void look(II_Result r) {
      r.r2 = frees;
    }
  }
}
