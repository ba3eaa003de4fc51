package org.nccl4j.api.init.connect;

import org.nccl4j.api.observe.flight.Link;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.TakeOvers;

/**
 * The connectors to and from another rank.
 *
 * @param peer that rank
 * @param transport name of the connectors' transport
 */
public record ConnectedLink(int peer, String transport, Connector sender, Connector receiver)
    implements Link {
  @Override
  public long bytesSent() {
    return sender.bytesSent();
  }

  @Override
  public long bytesDelivered() {
    return sender.bytesDelivered();
  }

  @Override
  public long bytesReceived() {
    return receiver.bytesReceived();
  }

  @Override
  public boolean hasRoom() {
    return receiver.hasRoom();
  }

  @Override
  public String via() {
    String via = sender.via();
    return via.isEmpty() ? receiver.via() : via;
  }

  @Override
  public TakeOvers takeOvers() {
    return sender.takeOvers();
  }
}
