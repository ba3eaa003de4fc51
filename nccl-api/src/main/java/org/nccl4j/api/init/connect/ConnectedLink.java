package org.nccl4j.api.init.connect;

import org.nccl4j.api.observe.flight.Link;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.TakeOvers;

/**
 * A connector that sends, and the rank that it sends to.
 *
 * @param peer that rank
 * @param transport name of the connector's transport
 */
public record ConnectedLink(int peer, String transport, Connector sender) implements Link {
  @Override
  public long bytesSent() {
    return sender.bytesSent();
  }

  @Override
  public TakeOvers takeOvers() {
    return sender.takeOvers();
  }
}
