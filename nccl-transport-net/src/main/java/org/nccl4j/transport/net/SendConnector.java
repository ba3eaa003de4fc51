package org.nccl4j.transport.net;

import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.spi.TransportContext;

/** The sending end; it connects to where the receiving end listens. */
final class SendConnector extends NetEnd {
  private final Net net;
  private final int device;
  private NetSender sender;
  private boolean done;

  SendConnector(Net net, int device, TransportContext context, PeerInfo peer) {
    super(context, peer);
    this.net = net;
    this.device = device;
  }

  @Override
  public byte[] handle() {
    return new byte[0];
  }

  @Override
  public boolean connect(byte[] remoteHandle) {
    if (sender == null) {
      sender = net.connect(device, peer.rank(), remoteHandle);
    }
    if (!done && sender.isConnected()) {
      connected(sender);
      done = true;
    }
    return done;
  }

  @Override
  ProxyHandler proxy(NetMemory data) {
    return new SendProxy(sender, data, data(), credit(), context.layout(), ranks());
  }

  @Override
  void close() {
    if (sender != null && !done) {
      sender.close();
    }
    super.close();
  }

  @Override
  public String toString() {
    return "sender to rank %d: %s".formatted(peer.rank(), sender);
  }
}
