package org.nccl4j.api.observe;

import org.nccl4j.api.spi.TakeOvers;

/**
 * A rank's sending side of a connection with another rank, as the observer reads it. Any thread.
 */
public interface Link {
  /** The rank that it sends to. */
  int peer();

  /** The paths that others have replaced, since the connection was made. */
  TakeOvers takeOvers();
}
