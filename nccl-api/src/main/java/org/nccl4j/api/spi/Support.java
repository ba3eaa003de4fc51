package org.nccl4j.api.spi;

import java.util.Objects;

/**
 * An answer, yes or no, with its reason.
 *
 * @param possible true for yes
 * @param reason for the answer, as a clause to print in a table
 */
public record Support(boolean possible, String reason) {
  /** Checks that there is a reason. */
  public Support {
    Objects.requireNonNull(reason);
  }

  /** Returns yes with a reason. */
  public static Support yes(String reason) {
    return new Support(true, reason);
  }

  /** Returns no with a reason. */
  public static Support no(String reason) {
    return new Support(false, reason);
  }
}
