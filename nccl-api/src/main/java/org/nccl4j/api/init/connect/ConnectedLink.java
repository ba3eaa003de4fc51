package org.nccl4j.api.init.connect;

import org.nccl4j.api.observe.flight.Link;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.LinkStatus;

/**
 * The connectors to and from another rank.
 *
 * @param peer that rank
 * @param transport name of the connectors' transport
 */
public record ConnectedLink(int peer, String transport, Connector sender, Connector receiver)
    implements Link {
  @Override
  public LinkStatus status() {
    return sender.status().with(receiver.status());
  }
}
