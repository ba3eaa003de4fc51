package org.nccl4j.transport.net;

import org.nccl4j.api.spi.NetSender;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportContext;

/** The sending end of this rank's own connection. */
final class SendConnector extends NetSendEnd {
  SendConnector(NicChoice card, TransportContext context, PeerInfo peer, int which) {
    super(card, context, peer, which, channels(context, peer));
  }

  /**
   * {@inheritDoc} Messages' directions share no socket: the network pairs those of one connection
   * of two ranks, and the ranks may make the operations' and the messages' in different orders.
   */
  @Override
  NetSender open(int channel, byte[] handle) {
    if (isOfMessages()) {
      return card.net().connect(card.device(channel), handle);
    }
    return card.net().connect(card.device(channel), peer.rank(), handle);
  }

  @Override
  public boolean connect(byte[] remoteHandle) {
    return isMade(remoteHandle);
  }

  @Override
  public String toString() {
    return "sender to rank %d: %s".formatted(peer.rank(), senders);
  }
}
