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

  private final int spins;
  private int waits;
  private long sleep = FIRST_SLEEP_NANOS;

  /** Waits that give way after a number of looks; 0 where ranks share cores. */
  public Backoff(int spins) {
    this.spins = spins;
  }

  /** Begins a new wait. */
  @HotPath
  public void reset() {
    waits = 0;
    sleep = FIRST_SLEEP_NANOS;
  }

  /** True if the wait has left its first, spinning, part: time for dearer checks. */
  @HotPath
  public boolean isSlow() {
    return waits > spins;
  }

  /** Lets a little time pass, the more the longer the wait has been. */
  @HotPath
  public void idle() {
    waits++;
    if (waits <= spins) {
      Thread.onSpinWait();
    } else if (waits <= spins + YIELDS) {
      Thread.yield();
    } else {
      Patience.sleep(sleep);
      sleep = Math.min(2 * sleep, LONGEST_SLEEP_NANOS);
    }
  }
}
