package org.nccl4j.transport.net;

import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.spi.TransportContext;

/** The receiving end; it listens for the sending end. */
final class RecvConnector extends NetEnd {
  private final NetListener listener;
  private NetReceiver receiver;

  RecvConnector(Net net, int device, TransportContext context, PeerInfo peer) {
    super(context, peer);
    this.listener = net.listen(device, peer.rank());
  }

  @Override
  public byte[] handle() {
    return listener.handle();
  }

  @Override
  public boolean connect(byte[] remoteHandle) {
    if (receiver == null) {
      receiver = listener.accept();
      if (receiver != null) {
        connected(receiver);
        listener.close();
      }
    }
    return receiver != null;
  }

  @Override
  ProxyHandler proxy(NetMemory data) {
    return new RecvProxy(receiver, data, data(), credit(), context.layout(), ranks());
  }

  @Override
  void close() {
    listener.close();
    super.close();
  }

  @Override
  public String toString() {
    return "receiver from rank %d: %s".formatted(peer.rank(), listener);
  }
}
