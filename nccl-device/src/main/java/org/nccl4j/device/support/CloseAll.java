package org.nccl4j.device.support;

/**
 * Frees several resources one after the other, even if one of them fails: with a broken GPU context
 * every driver call fails, but host memory must still be freed. One thread.
 */
public final class CloseAll {
  private RuntimeException failure;

  /** Creates an object without failures. */
  public CloseAll() {}

  /** Frees a resource; keeps its exception until {@link #end}. */
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

  /** Throws the first failure; the others are suppressed exceptions. */
  public void end() {
    if (failure != null) {
      throw failure;
    }
  }
}
