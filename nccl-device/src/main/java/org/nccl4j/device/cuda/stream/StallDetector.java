package org.nccl4j.device.cuda.stream;

import java.time.Duration;
import org.nccl4j.device.support.Patience;

/**
 * Detects a stream wait that makes no progress. Any thread may ask repeatedly; asking allocates
 * nothing.
 */
public final class StallDetector {
  private volatile long watched;
  private volatile long watchedSince;

  /** No wait lasts now. */
  public void reset() {
    watched = 0;
  }

  /**
   * True if a wait that lasts now has been seen for longer than a while.
   *
   * @param wait its number, from 1
   */
  public boolean isOverdue(long wait, Duration deadline) {
    if (watched != wait) {
      watchedSince = System.nanoTime();
      watched = wait;
      return false;
    }
    return System.nanoTime() - watchedSince > Patience.nanos(deadline);
  }
}
