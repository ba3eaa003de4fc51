package org.nccl4j.device.cuda;

import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Leases;

/**
 * Frees what is a GPU's: at once where its owner closes it, else on a thread of its own. The driver
 * may wait for operations that wait for what the calling thread launches next.
 */
final class LateFree extends Leases {
  private static final System.Logger LOG = DebugLog.of("ALLOC");

  private final CudaDevice device;
  private final Runnable release;

  LateFree(CudaDevice device, Runnable release) {
    this.device = device;
    this.release = release;
  }

  @Override
  protected void free() {
    release.run();
  }

  @Override
  protected void freeLate() {
    later(release, device);
  }

  /** Runs what may wait for operations of a device. */
  static void later(Runnable release, CudaDevice device) {
    Thread thread = new Thread(() -> run(release, device), "nccl4j-free");
    thread.setDaemon(true);
    thread.start();
  }

  private static void run(Runnable release, CudaDevice device) {
    try {
      release.run();
    } catch (RuntimeException e) { // nobody else would hear of it
      LOG.log(
          System.Logger.Level.WARNING,
          "what was closed while a call used it could not be freed on " + device + ": " + e);
    }
  }
}
