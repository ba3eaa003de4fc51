package org.nccl4j.api.init.connect;

import org.nccl4j.api.observe.flight.Link;
import org.nccl4j.api.spi.LinkStatus;

/**
 * A connection of another communicator that a split uses: only the split's own kernels know what
 * they send over it.
 *
 * @param peer the rank of the split that it leads to
 * @param transport name of its transport
 */
public record SharedLink(int peer, String transport) implements Link {
  @Override
  public LinkStatus status() {
    return LinkStatus.NONE;
  }
}
