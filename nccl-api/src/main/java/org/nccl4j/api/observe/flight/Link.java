package org.nccl4j.api.observe.flight;

import org.nccl4j.api.spi.TakeOvers;

/**
 * A rank's sending side of a connection with another rank, as the observer reads it. Any thread.
 */
public interface Link {
  /** The rank that it sends to. */
  int peer();

  /** Name of the transport of the connection. */
  String transport();

  /** Bytes that have been sent, where kernels do not count them: 0 if nobody counts. */
  long bytesSent();

  /** The paths that others have replaced, since the connection was made. */
  TakeOvers takeOvers();
}
