package org.example.filetransport;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.api.spi.Support;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.Device;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.connection.ConnectionLayout;

/** The connections of one communicator. */
final class FileTransport implements Transport {
  private static final Setting<Path> DIRECTORY =
      Setting.of(
          "NCCL4J_FILE_TRANSPORT_DIR",
          Path.of("/dev/shm"),
          "the name of a directory",
          "The directory of the files that connect ranks.",
          Path::of);

  private final TransportContext context;
  private final PeerInfo self;
  private final Path directory;
  private final List<FileConnector> connectors = new ArrayList<>();
  private boolean closed;

  FileTransport(TransportContext context) {
    this.context = context;
    self = context.peers().get(context.rank());
    directory = context.get(DIRECTORY);
  }

  @Override
  public Support canConnect(PeerInfo peer) {
    if (!peer.hostId().equals(self.hostId()) || !peer.ipcNamespace().equals(self.ipcNamespace())) {
      return Support.no("rank " + peer.rank() + " sees other files");
    }
    if (peer.userId() != self.userId()) {
      return Support.no("rank " + peer.rank() + " runs as another user");
    }
    if (peer.deviceKind() != Device.Kind.HOST || self.deviceKind() != Device.Kind.HOST) {
      return Support.no("GPUs cannot map files");
    }
    return Support.yes("same files");
  }

  @Override
  public Connector sender(PeerInfo peer) {
    return connector(peer, true, RegionFile.CREDIT, ConnectionLayout.CREDIT_BYTES);
  }

  @Override
  public Connector receiver(PeerInfo peer) {
    return connector(peer, false, RegionFile.DATA, context.layout().dataBytes());
  }

  private Connector connector(PeerInfo peer, boolean sends, String kind, long bytes) {
    checkOpen();
    Support support = canConnect(peer);
    if (!support.possible()) {
      throw new InvalidUsageException(support.reason(), "use another transport for this peer");
    }
    RegionFile own = RegionFile.create(directory, kind, bytes);
    FileConnector connector = new FileConnector(this, context, peer, sends, own);
    connectors.add(connector);
    return connector;
  }

  Path directory() {
    return directory;
  }

  void checkOpen() {
    if (closed) {
      throw new InvalidUsageException(
          "the file transport of rank " + context.rank() + " is used after close",
          "close a communicator after its last use");
    }
  }

  @Override
  public void close() {
    closed = true;
    connectors.forEach(FileConnector::close);
    connectors.clear();
  }
}
