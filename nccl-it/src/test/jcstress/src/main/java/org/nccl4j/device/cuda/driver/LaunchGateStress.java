package org.nccl4j.device.cuda.driver;

import org.nccl4j.device.Leases;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;
import org.openjdk.jcstress.infra.results.I_Result;

/** A GPU's memory is freed under no launch that has found it open. */
public final class LaunchGateStress {
  private LaunchGateStress() {}

  /** Memory of a GPU, and the launches of that GPU's communicators. */
  static class Memory {
    final LaunchGates gates = new LaunchGates();
    final Leases leases =
        new Leases() {
          @Override
          protected void free() {
            gates.underWay().await();
            bytesWhenFreed = bytes;
            freed = true;
          }
        };
    int bytes;
    int bytesWhenFreed;
    volatile boolean freed;

    /** Returns 0 if the memory was over; 1 if it was launched; 2 if it was freed under that. */
    int launch(LaunchGate gate) {
      gate.enter();
      try {
        if (leases.isOver()) {
          return 0;
        }
        bytes = 1;
        return freed ? 2 : 1;
      } finally {
        gate.leave();
      }
    }
  }

  /** A launch, and a close beside it. */
  @JCStressTest
  @State
  @Outcome(id = "0, 0", expect = Expect.ACCEPTABLE, desc = "Refused.")
  @Outcome(id = "1, 1", expect = Expect.ACCEPTABLE, desc = "Freed after the launch.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "Freed under a launch.")
  public static class CloseBesideLaunch extends Memory {
    private final LaunchGate gate = gates.add();

    /** Launches. */
    @Actor
    public void launch(II_Result r) {
      r.r1 = launch(gate);
    }

    /** Closes the memory, which frees it. */
    @Actor
    public void close() {
      leases.close();
    }

    /** Looks whether the launch had ended when the memory was freed. */
    @Arbiter
    public void look(II_Result r) {
      r.r2 = bytesWhenFreed;
    }
  }

  /** Two launches in turn: a free that waits for the first need not wait for the second. */
  @JCStressTest
  @State
  @Outcome(
      id = {"0, 0", "1, 0", "1, 1"},
      expect = Expect.ACCEPTABLE,
      desc = "Launched until the close.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "Freed under a launch, or launched after the close.")
  public static class CloseBesideTwoLaunches extends Memory {
    private final LaunchGate gate = gates.add();

    /** Launches twice. */
    @Actor
    public void launch(II_Result r) {
      r.r1 = launch(gate);
      r.r2 = launch(gate);
    }

    /** Closes the memory, which frees it. */
    @Actor
    public void close() {
      leases.close();
    }
  }

  /** Two communicators of the GPU launch with the same memory; one thread closes it then. */
  @JCStressTest
  @State
  @Outcome(
      id = {"0, 1", "1, 1"},
      expect = Expect.ACCEPTABLE,
      desc = "Launched or refused.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "Freed under a launch, or refused before the close.")
  public static class CloseAfterOwnLaunch extends Memory {
    private final LaunchGate one = gates.add();
    private final LaunchGate other = gates.add();

    /** One launches. */
    @Actor
    public void launch(II_Result r) {
      r.r1 = launch(one);
    }

    /** The other launches, and closes the memory, which frees it. */
    @Actor
    public void launchAndClose(II_Result r) {
      r.r2 = launch(other);
      leases.close();
    }
  }

  /** A communicator is made, launches and is closed beside the close of a memory. */
  @JCStressTest
  @State
  @Outcome(
      id = {"0", "1"},
      expect = Expect.ACCEPTABLE,
      desc = "Launched or refused.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "Freed under a launch of a gate that was not seen.")
  public static class CloseBesideNewCommunicator extends Memory {
    /** Makes a communicator, launches and closes it. */
    @Actor
    public void launch(I_Result r) {
      LaunchGate gate = gates.add();
      r.r1 = launch(gate);
      gates.remove(gate);
    }

    /** Closes the memory, which frees it. */
    @Actor
    public void close() {
      leases.close();
    }
  }
}
