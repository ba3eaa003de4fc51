package org.nccl4j.device.support;

import java.util.function.Consumer;

/**
 * Frees several resources one after the other, even if one of them fails: with a broken GPU context
 * every driver call fails, but host memory must still be freed. One thread.
 */
public final class CloseAll {
  private RuntimeException failure;

  /** Creates an object without failures. */
  public CloseAll() {}

  /** Frees each of some resources, then throws the first failure. */
  public static <T> void each(Iterable<T> resources, Consumer<? super T> release) {
    CloseAll all = new CloseAll();
    for (T resource : resources) {
      all.take(() -> release.accept(resource));
    }
    all.end();
  }

  /** Frees a resource; keeps its exception until {@link #end}. */
  public void take(Runnable release) {
    try {
      release.run();
    } catch (RuntimeException e) {
      keep(e);
    }
  }

  /** Keeps an exception of another step until {@link #end}. */
  public void keep(RuntimeException e) {
    if (failure == null) {
      failure = e;
    } else if (failure != e) {
      failure.addSuppressed(e);
    }
  }

  /** Throws the first failure; the others are suppressed exceptions. */
  public void end() {
    if (failure != null) {
      throw failure;
    }
  }
}
