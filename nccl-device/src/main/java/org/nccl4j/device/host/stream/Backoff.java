package org.nccl4j.device.host.stream;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.support.Patience;

/**
 * Waits for a word that another thread or process will change: spins briefly, then yields, then
 * sleeps, also if interrupted. Yielding lets more ranks than cores make progress, and virtual
 * threads share a carrier. Owned by the waiting thread.
 */
public final class Backoff {
  /** Looks before the first yield where every rank has a core of its own. */
  public static final int SPINS = 400;

  private static final int YIELDS = 2000;
  private static final long FIRST_SLEEP_NANOS = 10_000;
  private static final long LONGEST_SLEEP_NANOS = 200_000;
  private static final int MOST_DOUBLED = 5;

  private final int spins;
  private int waits;

  /** Waits that give way after a number of looks; 0 where ranks share cores. */
  public Backoff(int spins) {
    this.spins = spins;
  }

  /** Begins a new wait. */
  @HotPath
  public void reset() {
    waits = 0;
  }

  /** True if the wait has left its first, spinning, part: time for dearer checks. */
  @HotPath
  public boolean isSlow() {
    return waits > spins;
  }

  /** Lets a little time pass, the more the longer the wait has been. */
  @HotPath
  public void idle() {
    idle(++waits, spins);
  }

  /**
   * Lets a little time pass in a wait that counts its looks itself.
   *
   * @param looks of the wait so far, from 1 on
   * @param spins as of the constructor
   */
  @HotPath
  static void idle(int looks, int spins) {
    if (looks <= spins) {
      Thread.onSpinWait();
    } else if (looks <= spins + YIELDS) {
      Thread.yield();
    } else {
      int doubled = Math.min(looks - spins - YIELDS - 1, MOST_DOUBLED);
      Patience.sleep(Math.min(FIRST_SLEEP_NANOS << doubled, LONGEST_SLEEP_NANOS));
    }
  }
}
