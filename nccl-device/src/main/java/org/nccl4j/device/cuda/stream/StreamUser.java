package org.nccl4j.device.cuda.stream;

import org.nccl4j.device.NcclException;

/** A communicator that launches into a stream, as the stream knows it. Any thread may call. */
public interface StreamUser {
  /** The order of its launches. */
  ConnectionOrder order();

  /** Returns the communicator's failure once all its launches have ended; null if it has none. */
  NcclException settledFailure();
}
