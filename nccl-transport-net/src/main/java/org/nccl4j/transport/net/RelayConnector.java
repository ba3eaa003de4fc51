package org.nccl4j.transport.net;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.kernel.Connection;

/**
 * What this rank does for another of its host whose data it sends (PXN): it has the memory, the
 * connection of the network and the proxy, and hands the memory to the other once it is connected.
 */
final class RelayConnector extends NetEnd {
  private final CardChoice card;
  private final PeerInfo from;
  private final RelayRequest request;
  private final RelayMail mail;
  private final int rank;
  private final List<NetSender> senders = new ArrayList<>();

  /** Null before it is connected, and once all of it is on its way. */
  private SharedEnd shared;

  private int posted;
  private boolean connected;
  private boolean done;

  RelayConnector(
      CardChoice card,
      TransportContext context,
      PeerInfo from,
      PeerInfo to,
      RelayRequest request,
      RelayMail mail) {
    super(context, to, card, true);
    this.card = card;
    this.from = from;
    this.request = request;
    this.mail = mail;
    this.rank = context.rank();
  }

  @Override
  public byte[] handle() {
    return new byte[0];
  }

  @Override
  public boolean connect(byte[] remoteHandle) {
    if (senders.isEmpty()) {
      for (byte[] handle : Handles.split(remoteHandle, channels(), peer.rank())) {
        // Not as one of a pair: the other direction is the sender's own.
        senders.add(card.net().connect(card.device(), handle));
      }
    }
    if (!connected && allConnected()) {
      connected = true;
      connected(senders);
      shared = memory().share();
    }
    while (shared != null && mail.post(shared, posted, request)) {
      posted++;
      if (posted == shared.fds().size()) {
        shared.close();
        shared = null;
        done = true;
      }
    }
    return done;
  }

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
  Ranks ranks() {
    return new Ranks(rank, peer.rank(), from.rank());
  }

  @Override
  public Connection connection() {
    throw new InternalErrorException(
        "rank %d uses a connection of rank %d".formatted(rank, from.rank()), "report this");
  }

  /** Whether the rank that it sends for may still send. */
  boolean isNeeded() {
    return done && mail.isThere(request.mailbox());
  }

  @Override
  public void close() {
    if (shared != null) {
      shared.close();
    }
    if (!connected) {
      senders.forEach(NetSender::close);
    }
    super.close();
  }

  @Override
  public String toString() {
    return "sender to rank %d for rank %d by %s: %s%s"
        .formatted(
            peer.rank(),
            from.rank(),
            card.card().name(),
            senders,
            connected && !done ? ", memory is not handed over yet" : "");
  }
}
