package org.nccl4j.transport.p2p;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.Support;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.transport.p2p.ArenaHandle.End;

/** Connections of one communicator whose regions lie in one arena of each rank. */
final class ArenaTransport implements Transport {
  private final String name;
  private final TransportContext context;
  private final Function<PeerInfo, Support> support;
  private final ArenaExchange exchange;
  private final ArenaLayout layout;
  private final List<ArenaConnector> connectors = new ArrayList<>();
  private int senders;
  private int receivers;
  private boolean closed;

  ArenaTransport(
      String name,
      TransportContext context,
      ArenaLayout layout,
      Function<PeerInfo, Support> support,
      ArenaExchange exchange) {
    this.name = name;
    this.context = context;
    this.support = support;
    this.exchange = exchange;
    this.layout = layout;
  }

  @Override
  public Support canConnect(PeerInfo peer) {
    return support.apply(peer);
  }

  @Override
  public Connector sender(PeerInfo peer) {
    checkReachable(peer);
    exchange.own();
    int number = senders;
    exchange.reserve(layout.credit(number), 1);
    senders++;
    return connector(peer, End.SENDER, number);
  }

  @Override
  public Connector receiver(PeerInfo peer) {
    checkReachable(peer);
    exchange.own();
    int number = receivers;
    exchange.reserve(layout.data(number), layout.dataBytes());
    receivers++;
    return connector(peer, End.RECEIVER, number);
  }

  private Connector connector(PeerInfo peer, End end, int number) {
    ArenaHandle handle =
        new ArenaHandle(end, context.rank(), number, layout, exchange.address(peer));
    ArenaConnector connector = new ArenaConnector(this, peer, handle);
    connectors.add(connector);
    return connector;
  }

  private void checkReachable(PeerInfo peer) {
    checkOpen();
    Support reachable = support.apply(peer);
    if (!reachable.possible()) {
      throw new InvalidUsageException(
          ErrorId.NO_TRANSPORT,
          "%s cannot connect rank %d with rank %d: %s"
              .formatted(name, context.rank(), peer.rank(), reachable.reason()),
          "ask canConnect first, and use another transport for this peer");
    }
  }

  String name() {
    return name;
  }

  ArenaExchange exchange() {
    return exchange;
  }

  DeviceMemory wrap(long address, long bytes) {
    return context.device().wrap(address, bytes);
  }

  void checkOpen() {
    if (closed) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          "the %s transport of rank %d is used after close".formatted(name, context.rank()),
          "close a communicator only after its last use");
    }
  }

  @Override
  public long memoryBytes() {
    return closed ? 0 : senders * ConnectionLayout.CREDIT_BYTES + receivers * layout.dataBytes();
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      connectors.forEach(ArenaConnector::close);
      exchange.close();
    }
  }
}
