package org.nccl4j.api.observe.flight;

import org.nccl4j.api.spi.LinkStatus;

/** A rank's connections to and from another rank, as the observer reads them. Any thread. */
public interface Link {
  /** The other rank. */
  int peer();

  /** Name of the transport of the connection. */
  String transport();

  /**
   * The data of both directions, except those that kernels count. The network is that through which
   * it sends, before it can send that through which it receives.
   */
  LinkStatus status();

  /** False if what this rank's kernels send to the other goes by another connection. */
  default boolean isOfKernels() {
    return true;
  }
}
