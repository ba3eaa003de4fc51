package org.example.filetransport;

import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;

/** One end: its own region's file, and later the opposite's. */
final class FileConnector implements Connector {
  private final FileTransport transport;
  private final TransportContext context;
  private final PeerInfo peer;
  private final boolean sends;
  private final RegionFile own;
  private RegionFile other;
  private Connection connection;

  FileConnector(
      FileTransport transport,
      TransportContext context,
      PeerInfo peer,
      boolean sends,
      RegionFile own) {
    this.transport = transport;
    this.context = context;
    this.peer = peer;
    this.sends = sends;
    this.own = own;
  }

  @Override
  public byte[] handle() {
    return own.handle();
  }

  @Override
  public boolean connect(byte[] remoteHandle) {
    transport.checkOpen();
    if (connection == null) {
      String kind = sends ? RegionFile.DATA : RegionFile.CREDIT;
      long bytes = sends ? context.layout().dataBytes() : ConnectionLayout.CREDIT_BYTES;
      other = RegionFile.open(remoteHandle, transport.directory(), kind, bytes);
      connection =
          sends
              ? new Connection(memory(other), memory(own))
              : new Connection(memory(own), memory(other));
    }
    return true;
  }

  private DeviceMemory memory(RegionFile file) {
    return context.device().wrap(file.region());
  }

  @Override
  public Connection connection() {
    transport.checkOpen();
    if (connection == null) {
      throw new InvalidUsageException(this + " is not connected", "connect it first");
    }
    return connection;
  }

  void close() {
    if (connection != null) {
      connection.data().close();
      connection.credit().close();
      other.close();
    }
    own.close();
  }

  @Override
  public String toString() {
    return "file transport's %s of rank %d with rank %d, file %s"
        .formatted(
            sends ? "sender" : "receiver", context.rank(), peer.rank(), own.path().getFileName());
  }
}
