package org.nccl4j.device.cuda.driver;

import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Leases;
import org.nccl4j.device.support.DaemonThread;

/**
 * Frees a GPU's memory: at once where its owner closes it, else on a thread of its own. The driver
 * may wait for operations that wait for what the calling thread launches next. Launches hold no
 * leases, so both come after the launches that are under way.
 */
public final class DeferredFree extends Leases {
  private static final System.Logger LOG = DebugLog.of("ALLOC");

  private static final long MOMENT_MILLIS = 200;

  private final LaunchGates gates;
  private final Object place;
  private final Runnable release;

  /**
   * Leases of a memory.
   *
   * @param gates of the communicators that may launch with it
   * @param place where it lies, for messages
   */
  public DeferredFree(LaunchGates gates, Object place, Runnable release) {
    this.gates = gates;
    this.place = place;
    this.release = release;
  }

  @Override
  protected void free() {
    LaunchGates.Launches launches = gates.underWay();
    if (launches.awaitBriefly()) {
      release.run();
    } else {
      freeLate(launches);
    }
  }

  @Override
  protected void freeLate() {
    freeLate(gates.underWay());
  }

  private void freeLate(LaunchGates.Launches launches) {
    later(
        () -> {
          launches.await();
          release.run();
        },
        place);
  }

  /**
   * Runs what may wait for operations of a GPU, which may wait for what this thread launches next.
   * So it ends on a thread of its own if it takes longer than a moment.
   */
  public static void soon(Runnable release, Object place) {
    Thread thread = later(release, place);
    try {
      thread.join(MOMENT_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Runs what may wait for operations of a GPU. */
  public static Thread later(Runnable release, Object place) {
    Thread thread = DaemonThread.of(() -> run(release, place), "nccl4j-free");
    thread.start();
    return thread;
  }

  private static void run(Runnable release, Object place) {
    try {
      release.run();
    } catch (RuntimeException e) { // nobody else would hear of it
      LOG.log(
          System.Logger.Level.WARNING,
          "memory that was closed while a call used it could not be freed on " + place + ": " + e);
    }
  }
}
