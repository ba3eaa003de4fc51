package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.fail;

import java.lang.ref.WeakReference;
import java.util.concurrent.locks.LockSupport;

/** Objects that nothing keeps. */
final class Collected {
  private static final long PAUSE_NANOS = 20_000_000;

  private Collected() {}

  /** Waits until an object is collected. */
  static void await(WeakReference<?> object) {
    long end = System.nanoTime() + Ranks.PATIENCE_NANOS;
    while (object.get() != null) {
      if (System.nanoTime() > end) {
        fail("something still keeps " + object.get());
      }
      System.gc();
      LockSupport.parkNanos(PAUSE_NANOS);
    }
  }
}
