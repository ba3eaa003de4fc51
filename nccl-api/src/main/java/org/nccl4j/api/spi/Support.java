package org.nccl4j.api.spi;

import java.util.Objects;

/**
 * The answer whether something is possible, with the reason.
 *
 * @param possible whether it can
 * @param reason why, or why not, as a clause that a person reads in a table
 */
public record Support(boolean possible, String reason) {
  /** Checks that there is a reason. */
  public Support {
    Objects.requireNonNull(reason);
  }

  /** Returns support with the reason for it. */
  public static Support yes(String reason) {
    return new Support(true, reason);
  }

  /** Returns the lack of support with the reason for it. */
  public static Support no(String reason) {
    return new Support(false, reason);
  }
}
