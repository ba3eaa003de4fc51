package org.nccl4j.testkit;

import java.util.Objects;
import org.nccl4j.device.NcclException;

/** Throws an {@link AssertionError} where something is not as it has to be. */
final class Expect {
  private Expect() {}

  static void that(boolean holds, String message, Object... arguments) {
    if (!holds) {
      throw new AssertionError(message.formatted(arguments));
    }
  }

  static void equal(Object expected, Object actual, String what) {
    that(Objects.equals(expected, actual), "%s: expected %s, is %s", what, expected, actual);
  }

  /** Checks that an action fails with an error of the library, which says the remedy. */
  static NcclException failure(String what, Runnable action) {
    try {
      action.run();
    } catch (NcclException e) {
      that(!e.problem().isBlank() && !e.remedy().isBlank(), "%s: no reason in %s", what, e);
      return e;
    } catch (RuntimeException e) {
      throw new AssertionError(
          "%s: fails with %s instead of an NcclException".formatted(what, e), e);
    }
    throw new AssertionError(what + ": does not fail");
  }
}
