package org.nccl4j.device.cuda.stream;

import org.nccl4j.device.NcclException;

/** A communicator that launches into a stream, as the stream knows it. Any thread may call. */
public interface StreamUser {
  /** The order of its launches. */
  ConnectionOrder order();

  /** Its failure, once all that it launched has ended; null where there is none. */
  NcclException settledFailure();
}
