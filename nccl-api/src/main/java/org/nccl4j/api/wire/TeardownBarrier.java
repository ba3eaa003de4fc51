package org.nccl4j.api.wire;

import java.lang.System.Logger.Level;
import java.time.Duration;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.support.DaemonThread;
import org.nccl4j.device.support.Patience;

/**
 * Frees resources that other ranks use once they have finished with them: waits for the ranks on
 * the calling thread for a while, then on its own thread, so that close keeps its time limit.
 */
public final class TeardownBarrier {
  /** The result of a look at the other ranks. */
  public enum Look {
    /** None of them uses it any more. */
    OVER,
    /** Something was done for them; there may be more. */
    WORKED,
    IDLE
  }

  /** Resource that is freed. Called by one thread at a time. */
  public interface Shared {
    /**
     * Takes the next step towards the end, and looks at the others; never waits.
     *
     * @throws NcclException if they cannot be looked at any more, so that nobody waits for them
     */
    Look look();

    /** The calling thread goes on: the others take longer than it may wait. */
    default void late() {}

    /**
     * The end, once.
     *
     * @param over whether the others have done with it; else they have run out of time
     */
    void free(boolean over);
  }

  /** Wait without a limit in practice. */
  public static final Duration FOREVER = Duration.ofDays(365);

  private static final System.Logger LOG = DebugLog.of("NET");
  private static final long PAUSE_NANOS = 100_000;

  private TeardownBarrier() {}

  /**
   * Waits, then frees.
   *
   * @param thread the name of the thread that goes on where the others are late
   * @param here how long the caller may wait
   * @param patience how long the others may take, all in all
   */
  public static void pass(Shared shared, String thread, Duration here, Duration patience) {
    long start = System.nanoTime();
    if (isOver(shared, start + Patience.nanos(here))) {
      shared.free(true);
      return;
    }
    shared.late();
    long end = start + Patience.nanos(patience);
    DaemonThread.of(() -> shared.free(isOver(shared, end)), thread).start();
  }

  private static boolean isOver(Shared shared, long endNanos) {
    while (true) {
      Look look;
      try {
        look = shared.look();
      } catch (NcclException e) {
        LOG.log(Level.DEBUG, "another rank cannot be asked any more whether it has done", e);
        return false;
      }
      if (look == Look.OVER) {
        return true;
      }
      if (System.nanoTime() - endNanos >= 0) {
        return false;
      }
      if (look == Look.IDLE) {
        Patience.sleep(PAUSE_NANOS);
      }
    }
  }
}
