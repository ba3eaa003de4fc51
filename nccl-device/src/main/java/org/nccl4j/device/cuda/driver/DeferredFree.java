package org.nccl4j.device.cuda.driver;

import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Leases;

/**
 * Frees what is a GPU's: at once where its owner closes it, else on a thread of its own. The driver
 * may wait for operations that wait for what the calling thread launches next.
 */
public final class DeferredFree extends Leases {
  private static final System.Logger LOG = DebugLog.of("ALLOC");

  private final Object place;
  private final Runnable release;

  public DeferredFree(Object place, Runnable release) {
    this.place = place;
    this.release = release;
  }

  @Override
  protected void free() {
    release.run();
  }

  @Override
  protected void freeLate() {
    later(release, place);
  }

  /** Runs what may wait for operations of a GPU. */
  public static void later(Runnable release, Object place) {
    Thread thread = new Thread(() -> run(release, place), "nccl4j-free");
    thread.setDaemon(true);
    thread.start();
  }

  private static void run(Runnable release, Object place) {
    try {
      release.run();
    } catch (RuntimeException e) { // nobody else would hear of it
      LOG.log(
          System.Logger.Level.WARNING,
          "what was closed while a call used it could not be freed on " + place + ": " + e);
    }
  }
}
