package org.nccl4j.device.cuda.driver;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.nccl4j.device.support.Patience;

/** The launches of a device's communicators that are under way. Any thread. */
public final class LaunchGates {
  /** Looks at launches, which take some microseconds while their threads have a processor. */
  private static final int LOOKS = 1000;

  private static final long POLL_NANOS = 100_000;

  private final List<LaunchGate> gates = new CopyOnWriteArrayList<>();

  /** Launches that were under way at a look for them. Owner: the thread that looked. */
  public static final class Launches {
    private final List<LaunchGate> gates = new ArrayList<>();
    private final List<Long> looks = new ArrayList<>();

    private Launches(List<LaunchGate> all) {
      for (LaunchGate gate : all) {
        gates.add(gate);
        looks.add(gate.look());
      }
    }

    private boolean haveEnded() {
      for (int g = gates.size() - 1; g >= 0; g--) {
        if (!gates.get(g).isInside(looks.get(g))) {
          gates.remove(g);
          looks.remove(g);
        }
      }
      return gates.isEmpty();
    }

    /** Waits a little; returns whether all have ended. */
    public boolean awaitBriefly() {
      for (int look = 0; look < LOOKS; look++) {
        if (haveEnded()) {
          return true;
        }
        Thread.onSpinWait();
      }
      return false;
    }

    /** Waits for all, each of which the driver may keep waiting. */
    public void await() {
      while (!haveEnded()) {
        Patience.sleep(POLL_NANOS);
      }
    }
  }

  /** The gate of a communicator that is being made. */
  public LaunchGate add() {
    LaunchGate gate = new LaunchGate();
    gates.add(gate);
    return gate;
  }

  /** Removes the gate of a communicator that launches no more. */
  public void remove(LaunchGate gate) {
    gates.remove(gate);
  }

  /** The launches that may have found memory open that has been closed by now. */
  public Launches underWay() {
    return new Launches(gates);
  }
}
