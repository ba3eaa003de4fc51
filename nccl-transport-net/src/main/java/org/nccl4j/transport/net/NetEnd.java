package org.nccl4j.transport.net;

import java.nio.ByteBuffer;
import java.util.Optional;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.NetConnection;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.Connection;
import org.nccl4j.device.kernel.ConnectionLayout;

/** One end of a connection over a network: both regions, in memory of its own. */
abstract class NetEnd implements Connector {
  final TransportContext context;
  final PeerInfo peer;
  private final DeviceMemory memory;
  private final Connection connection;
  private NetConnection network;
  private NetMemory registered;
  private ProxyHandler proxy;

  NetEnd(TransportContext context, PeerInfo peer) {
    this.context = context;
    this.peer = peer;
    long dataBytes = context.layout().dataBytes();
    this.memory = context.device().allocate(dataBytes + ConnectionLayout.CREDIT_BYTES);
    this.connection =
        new Connection(
            memory.slice(0, dataBytes), memory.slice(dataBytes, ConnectionLayout.CREDIT_BYTES));
  }

  /** Takes over the network's connection, once it is made. */
  final void connected(NetConnection made) {
    network = made;
    registered = made.register(connection.data());
    proxy = proxy(registered);
  }

  /** What moves the data. */
  abstract ProxyHandler proxy(NetMemory data);

  /** The data side, as the processor sees it. */
  final ByteBuffer data() {
    return HostDevice.view(connection.data(), 0, (int) connection.data().size());
  }

  /** The credit side, as the processor sees it. */
  final ByteBuffer credit() {
    return HostDevice.view(connection.credit(), 0, (int) connection.credit().size());
  }

  /** Both ends, for messages. */
  final Ranks ranks() {
    return new Ranks(context.rank(), peer.rank());
  }

  @Override
  public final Connection connection() {
    return connection;
  }

  @Override
  public final Optional<ProxyHandler> proxy() {
    return Optional.of(proxy);
  }

  void close() {
    if (registered != null) {
      registered.close();
    }
    if (network != null) {
      network.close();
    }
    memory.close();
  }
}
