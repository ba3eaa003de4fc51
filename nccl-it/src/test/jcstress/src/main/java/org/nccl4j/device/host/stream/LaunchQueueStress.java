package org.nccl4j.device.host.stream;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.memory.HostMemory;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/** Launches are run once and in order, and none is missed by who frees, seals or sleeps. */
public final class LaunchQueueStress {
  private static final DeviceMemory BYTES = HostDevice.instance().allocate(64);

  private LaunchQueueStress() {}

  /** A queue, and what its launches did. */
  static class Queue {
    final LaunchQueue queue = new LaunchQueue();
    int runs;

    boolean add(HostMemory send) {
      try {
        return queue.add((s, r, ticket) -> runs = 2 * runs + (int) ticket, send, null, 1);
      } catch (InvalidUsageException refused) {
        return false;
      }
    }
  }

  /**
   * While the dispatcher goes to sleep, the adding thread sees that it does, or it sees the launch.
   */
  @JCStressTest
  @State
  @Outcome(
      id = {"1, 0", "1, 1", "0, 0"},
      expect = Expect.ACCEPTABLE,
      desc = "Launched, or woken.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "The launch is missed by both.")
  public static class SleepBesideAdd extends Queue {
    volatile boolean asleep;

    /** True if it wakes the other. */
    @Actor
    public void add(II_Result r) {
      add((HostMemory) null);
      r.r1 = asleep ? 1 : 0;
    }

    /** True if it stays asleep. */
    @Actor
    public void sleep(II_Result r) {
      asleep = true;
      r.r2 = queue.isQuiet() ? 1 : 0;
    }
  }

  /** Memory is freed beside a launch with it. */
  @JCStressTest
  @State
  @Outcome(
      id = {"0, 0", "1, 1"},
      expect = Expect.ACCEPTABLE,
      desc = "Refused, or waited for.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "Memory is freed under a launch.")
  public static class CloseBesideAdd extends Queue {
    volatile int awaited;

    final HostMemory memory =
        new HostMemory(
            HostDevice.instance(),
            HostMemory.of(BYTES).address(),
            64,
            () -> awaited = (int) queue.addedByAll());

    /** Adds. */
    @Actor
    public void add(II_Result r) {
      r.r1 = add(memory) ? 1 : 0;
    }

    /** Closes. */
    @Actor
    public void close(II_Result r) {
      memory.close();
      r.r2 = awaited;
    }
  }

  /** A stream is closed beside a launch. */
  @JCStressTest
  @State
  @Outcome(
      id = {"0, 0", "1, 1"},
      expect = Expect.ACCEPTABLE,
      desc = "Refused, or seen.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "A launch after the last.")
  public static class SealBesideAdd extends Queue {
    /** Adds. */
    @Actor
    public void add(II_Result r) {
      r.r1 = add((HostMemory) null) ? 1 : 0;
    }

    /** Seals. */
    @Actor
    public void seal(II_Result r) {
      queue.seal();
      r.r2 = (int) queue.added();
    }
  }

  /** Two threads add, and one of them runs the queue. */
  @JCStressTest
  @State
  @Outcome(id = "3, 1", expect = Expect.ACCEPTABLE, desc = "Each was run once.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "Lost, run twice or failed.")
  public static class RunBesideAdds extends Queue {
    /** Adds. */
    @Actor
    public void add() {
      add(null);
    }

    /** Adds, and synchronizes. */
    @Actor
    public void run() {
      add(null);
      queue.run(queue.added());
    }

    /** Runs what is left. */
    @Arbiter
    public void look(II_Result r) {
      queue.run(queue.added());
      r.r1 = runs;
      r.r2 = queue.takeError() == null && queue.isQuiet() ? 1 : 0;
    }
  }

  /** A thread is lent while the stream's own runs. */
  @JCStressTest
  @State
  @Outcome(
      id = {"7, 1", "7, 2"},
      expect = Expect.ACCEPTABLE,
      desc = "All were run, in order.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "Two were run at a time, or seen before their end.")
  public static class LendBesideRun extends Queue {
    /** With three launches. */
    public LendBesideRun() {
      add(null);
      add(null);
      add(null);
    }

    /** Is lent; once all have ended, it sees all that they did. */
    @Actor
    public void lend(II_Result r) {
      queue.lends(true);
      queue.run(3);
      queue.lends(false);
      r.r2 = queue.ended() < 3 ? 1 : runs == 7 ? 2 : 3;
    }

    /** The stream's own. */
    @Actor
    public void run() {
      queue.runUntilLent(3);
    }

    /** Runs what is left. */
    @Arbiter
    public void look(II_Result r) {
      queue.run(3);
      r.r1 = runs;
    }
  }
}
