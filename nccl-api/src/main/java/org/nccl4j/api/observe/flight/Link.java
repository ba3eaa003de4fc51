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

  /** Bytes sent, except those that kernels count; 0 if they are not counted. */
  long bytesSent();

  /** The paths that others have replaced, since the connection was made. */
  TakeOvers takeOvers();
}
