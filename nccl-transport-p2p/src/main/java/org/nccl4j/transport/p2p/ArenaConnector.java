package org.nccl4j.transport.p2p;

import java.util.OptionalLong;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.transport.p2p.ArenaHandle.End;

/** One end of a connection whose two regions lie in the arenas of its two ranks. */
final class ArenaConnector implements Connector {
  private final ArenaTransport transport;
  private final PeerInfo peer;
  private final ArenaHandle local;
  private Connection connection;

  ArenaConnector(ArenaTransport transport, PeerInfo peer, ArenaHandle local) {
    this.transport = transport;
    this.peer = peer;
    this.local = local;
  }

  @Override
  public byte[] handle() {
    return local.encode();
  }

  @Override
  public boolean connect(byte[] remoteHandle) {
    transport.checkOpen();
    if (connection != null) {
      return true;
    }
    ArenaHandle remote =
        ArenaHandle.decode(remoteHandle, peer, local.end().opposite(), local.layout());
    OptionalLong theirs = transport.exchange().meet(peer, remote.address());
    if (theirs.isPresent()) {
      connection =
          local.end() == End.SENDER
              ? new Connection(data(theirs.getAsLong(), remote), credit(own(), local))
              : new Connection(data(own(), local), credit(theirs.getAsLong(), remote));
    }
    return connection != null;
  }

  private long own() {
    return transport.exchange().own();
  }

  private DeviceMemory data(long arena, ArenaHandle at) {
    ArenaLayout layout = at.layout();
    return transport.wrap(arena + layout.data(at.number()), layout.dataBytes());
  }

  private DeviceMemory credit(long arena, ArenaHandle at) {
    return transport.wrap(arena + at.layout().credit(at.number()), ConnectionLayout.CREDIT_BYTES);
  }

  @Override
  public Connection connection() {
    transport.checkOpen();
    if (connection == null) {
      throw new InvalidUsageException(
          ErrorId.PLUGIN,
          this + " is used before it is connected",
          "call connect until it returns true");
    }
    return connection;
  }

  /** Makes the regions unusable; their memory is the transport's. */
  void close() {
    if (connection != null) {
      connection.data().close();
      connection.credit().close();
    }
  }

  @Override
  public String toString() {
    return "%s %s of rank %d %s rank %d: %s"
        .formatted(
            transport.name(),
            local.end().label(),
            local.rank(),
            local.end() == End.SENDER ? "to" : "from",
            peer.rank(),
            connection != null ? "connected" : transport.exchange().missing(peer));
  }
}
