package org.nccl4j.api.proxy;

import java.util.List;
import org.nccl4j.api.spi.ProxyHandler;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.I_Result;

/** Handlers have no turn, and nothing is looked for, after it was stopped. */
public final class ProxyThreadStress {
  private ProxyThreadStress() {}

  /** A kernel gives turns beside the end. */
  @JCStressTest
  @State
  @Outcome(
      id = {"0", "1"},
      expect = Expect.ACCEPTABLE,
      desc = "Before the end, or not at all.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "A turn after the memory is freed.")
  public static class Stop {
    volatile boolean freed;
    int turn;
    final ProxyThread proxy = new ProxyThread("stress", List.of(handler()));

    private ProxyHandler handler() {
      return () -> turn = freed ? 2 : 1;
    }

    /** Gives a turn. */
    @Actor
    public void turn(I_Result r) {
      proxy.doWork();
      r.r1 = turn;
    }

    /** Stops it, and frees. */
    @Actor
    public void stop() {
      freed = proxy.stop();
    }
  }

  /** An unasked event is looked for beside the end of the wait. */
  @JCStressTest
  @State
  @Outcome(
      id = {"0", "1"},
      expect = Expect.ACCEPTABLE,
      desc = "Before the end, or not at all.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "Looked for after the memory is freed.")
  public static class Neglect {
    volatile boolean freed;
    int turn;
    final ProxyThread proxy = new ProxyThread("stress", List.of());

    /** With something to look for. */
    public Neglect() {
      proxy.attend(List.of(), () -> turn = freed ? 2 : 1);
    }

    /** Gives a turn. */
    @Actor
    public void turn(I_Result r) {
      proxy.doWork();
      r.r1 = turn;
    }

    /** Ends it, and frees. */
    @Actor
    public void neglect() {
      proxy.neglect();
      freed = true;
    }
  }
}
