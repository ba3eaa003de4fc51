package org.nccl4j.device.cuda.stream;

import org.nccl4j.device.NcclException;

/**
 * A communicator that launches into a stream, as the stream knows it, and as a graph knows it that
 * has launches of it. Any thread may call.
 */
public interface StreamUser {
  /** The order of its launches. */
  ConnectionOrder order();

  /** Returns the communicator's failure once all its launches have ended; null if it has none. */
  NcclException settledFailure();

  /**
   * Throws if a graph that has launches of it must not be launched now.
   *
   * @throws org.nccl4j.device.InvalidUsageException if it is closed
   * @throws NcclException its failure, if it has failed
   */
  void checkReplay();

  /** A graph that has launches of it was launched into a stream. */
  void replayed(GpuStream into);
}
