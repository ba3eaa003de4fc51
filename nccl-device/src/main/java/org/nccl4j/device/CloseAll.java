package org.nccl4j.device;

/**
 * Frees several things one after the other, also where one of them cannot be freed: of a GPU whose
 * context is broken every call fails, and memory of the host is to be freed all the same. One
 * thread.
 */
public final class CloseAll {
  private RuntimeException failure;

  /** None yet. */
  public CloseAll() {}

  /** Frees one; keeps its exception until {@link #end}. */
  public void take(Runnable release) {
    try {
      release.run();
    } catch (RuntimeException e) {
      if (failure == null) {
        failure = e;
      } else if (failure != e) {
        failure.addSuppressed(e);
      }
    }
  }

  /** Throws the first failure, with the others. */
  public void end() {
    if (failure != null) {
      throw failure;
    }
  }
}
