package org.nccl4j.transport.net;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.spi.TransportContext;

/** The sending end; it connects to where the receiving end listens. */
final class SendConnector extends NetEnd {
  private final CardChoice card;
  private final List<NetSender> senders = new ArrayList<>();
  private boolean done;

  SendConnector(CardChoice card, TransportContext context, PeerInfo peer) {
    super(context, peer, card, true);
    this.card = card;
  }

  @Override
  public byte[] handle() {
    return new byte[0];
  }

  @Override
  public boolean connect(byte[] remoteHandle) {
    if (senders.isEmpty()) {
      for (byte[] handle : Handles.split(remoteHandle, channels(), peer.rank())) {
        senders.add(card.net().connect(card.device(), peer.rank(), handle));
      }
    }
    if (!done && allConnected()) {
      done = true;
      connected(senders);
    }
    return done;
  }

  /** Lets each take its next step. */
  private boolean allConnected() {
    boolean all = true;
    for (NetSender sender : senders) {
      all &= sender.isConnected();
    }
    return all;
  }

  @Override
  ProxyHandler proxy(int number, Channel channel) {
    return new SendProxy(senders.get(number), channel, ranks());
  }

  @Override
  public void close() {
    if (!done) {
      senders.forEach(NetSender::close);
    }
    super.close();
  }

  @Override
  public String toString() {
    return "sender to rank %d: %s".formatted(peer.rank(), senders);
  }
}
