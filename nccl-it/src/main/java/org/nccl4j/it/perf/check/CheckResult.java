package org.nccl4j.it.perf.check;

import java.io.Serializable;

/**
 * The number of wrong elements.
 *
 * @param wrong elements of the result that are not as expected
 * @param outside bytes after the end of the receive buffer that were written
 * @param first the first wrong element, what it is and what it should be; empty if all are right
 */
public record CheckResult(long wrong, long outside, String first) implements Serializable {
  /** Nothing wrong. */
  public static final CheckResult RIGHT = new CheckResult(0, 0, "");

  /** This and another part's. */
  public CheckResult and(CheckResult other) {
    return new CheckResult(
        wrong + other.wrong, outside + other.outside, first.isEmpty() ? other.first : first);
  }
}
