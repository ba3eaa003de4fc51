package org.nccl4j.api.bootstrap;

import java.time.Duration;

/**
 * Spreads the ranks of a large communicator over time: each waits a little before it connects to
 * its root.
 *
 * @param rate of ranks a second that contact a root
 * @param threshold number of ranks up to which no rank waits
 */
public record Stagger(int rate, int threshold) {
  /**
   * Returns the time that a rank waits.
   *
   * @param place the rank's among those of its root
   */
  Duration delay(int place, int nRanks) {
    return nRanks <= threshold ? Duration.ZERO : Duration.ofNanos(place * 1_000_000_000L / rate);
  }
}
