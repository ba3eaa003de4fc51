package org.nccl4j.api.observe.flight;

import org.nccl4j.api.spi.TakeOvers;

/** A rank's connections to and from another rank, as the observer reads them. Any thread. */
public interface Link {
  /** The other rank. */
  int peer();

  /** Name of the transport of the connection. */
  String transport();

  /** Bytes sent, except those that kernels count; 0 if they are not counted. */
  long bytesSent();

  /** Bytes of these that the other rank has. */
  default long bytesDelivered() {
    return bytesSent();
  }

  /** Bytes received; 0 if they are not counted. */
  default long bytesReceived() {
    return 0;
  }

  /** True if there is room for data that have not come; false if that is not known. */
  default boolean hasRoom() {
    return false;
  }

  /**
   * The network and the device that it sends through, before it can send the one that it receives
   * by; empty if it uses none.
   */
  default String via() {
    return "";
  }

  /** The paths that others have replaced, since the connection was made. */
  TakeOvers takeOvers();
}
