package org.nccl4j.api.init.connect;

import org.nccl4j.api.observe.flight.Link;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.Failovers;
import org.nccl4j.api.spi.LinkStatus;

/**
 * A sending end of puts, or of another rank's data (PXN): reports name its replaced paths. Its
 * bytes are not among those that operations of this rank have sent.
 *
 * @param peer the rank that it sends to
 * @param transport name of its transport
 */
record UncountedLink(int peer, String transport, Connector sender) implements Link {
  @Override
  public LinkStatus status() {
    Failovers failovers = sender.status().failovers();
    return failovers.count() == 0 ? LinkStatus.NONE : LinkStatus.sent(0, 0, "", failovers);
  }

  @Override
  public boolean isOfKernels() {
    return false;
  }
}
