package org.nccl4j.transport.net;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.nccl4j.api.spi.Failovers;
import org.nccl4j.api.spi.LinkStatus;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.transport.net.memory.ProxyChannel;
import org.nccl4j.transport.net.proxy.SendProxy;

/**
 * An end that sends, for its own rank or another: it connects to where the receiving end listens.
 */
abstract class NetSendEnd extends NetEnd {
  final NicChoice card;
  final List<NetSender> senders = new ArrayList<>();
  private final List<SendProxy> proxies = new CopyOnWriteArrayList<>();

  /** Written before {@code made}. */
  private String via = "";

  private volatile boolean made;

  NetSendEnd(NicChoice card, TransportContext context, PeerInfo peer, int which, int channels) {
    super(context, peer, card, true, which, channels);
    this.card = card;
  }

  /** Opens a channel's connection of the network to the receiving end's. */
  abstract NetSender open(int channel, byte[] handle);

  @Override
  public byte[] handle() {
    return new byte[0];
  }

  /** True if the network's connections are made; each call lets each take its next step. */
  final boolean isMade(byte[] remoteHandle) {
    if (senders.isEmpty()) {
      for (byte[] handle : HandleList.split(remoteHandle, channels(), peer.rank())) {
        senders.add(open(senders.size(), handle));
      }
    }
    if (!made && allConnected()) {
      via = card.via();
      made = true;
      connected(senders);
    }
    return made;
  }

  final boolean isMade() {
    return made;
  }

  private boolean allConnected() {
    boolean all = true;
    for (NetSender sender : senders) {
      all &= sender.isConnected();
    }
    return all;
  }

  @Override
  final ProxyHandler proxy(int number, ProxyChannel channel) {
    NetSender sender = senders.get(number);
    SendProxy proxy =
        new SendProxy(
            sender,
            channel,
            ranks(),
            events(channel),
            exposedBuffers(channel, sender).orElse(null));
    proxies.add(proxy);
    return proxy;
  }

  @Override
  public LinkStatus status() {
    long sent = 0;
    for (SendProxy proxy : proxies) {
      sent += proxy.bytesSent();
    }
    long delivered = 0;
    for (SendProxy proxy : proxies) {
      delivered += proxy.bytesDelivered();
    }
    return LinkStatus.sent(sent, delivered, made ? via : "", failovers());
  }

  /** Senders are added by the thread that connects; they are read once all are there. */
  private Failovers failovers() {
    Failovers all = Failovers.NONE;
    if (made) {
      for (NetSender sender : senders) {
        all = all.and(sender.failovers());
      }
    }
    return all;
  }

  @Override
  final void closeProxies(CloseAll all) {
    proxies.forEach(proxy -> all.take(proxy::close));
  }

  @Override
  void closeUnmade(CloseAll all) {
    if (!made) {
      senders.forEach(sender -> all.take(sender::close));
    }
  }
}
