package org.nccl4j.transport.net;

import org.nccl4j.api.spi.NetSender;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.transport.net.memory.SharedEnd;
import org.nccl4j.transport.net.proxy.EndpointNames;

/**
 * Sends for another rank of the same host (PXN): it has the memory, the connection of the network
 * and the proxy, and hands the memory to the other rank when it is connected.
 */
final class PxnConnector extends NetSendEnd {
  private final PeerInfo from;
  private final PxnRequest request;
  private final PxnMail mail;
  private final int rank;

  /** Null before it is connected, and once all of it is on its way. */
  private SharedEnd shared;

  private int posted;
  private boolean done;

  PxnConnector(
      NicChoice card,
      TransportContext context,
      PeerInfo from,
      PeerInfo to,
      PxnRequest request,
      PxnMail mail) {
    super(card, context, to, OPERATIONS, request.channels());
    this.from = from;
    this.request = request;
    this.mail = mail;
    this.rank = context.rank();
  }

  /** Not as one of a pair: the other direction is the sender's own. */
  @Override
  NetSender open(int channel, byte[] handle) {
    return card.net().connect(card.device(channel), handle);
  }

  @Override
  public boolean connect(byte[] remoteHandle) {
    if (!isMade() && isMade(remoteHandle)) {
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

  @Override
  EndpointNames ranks() {
    return new EndpointNames(rank, peer.rank(), from.rank());
  }

  @Override
  public Connection connection() {
    throw new InternalErrorException(
        "rank %d uses a connection of rank %d".formatted(rank, from.rank()), "report this");
  }

  /** True if the rank that it sends for may still send. */
  boolean isNeeded() {
    return done && mail.isThere(request.mailbox());
  }

  @Override
  void closeUnmade(CloseAll all) {
    if (shared != null) {
      all.take(shared::close);
    }
    super.closeUnmade(all);
  }

  @Override
  public String toString() {
    return "sender to rank %d for rank %d by %s: %s%s"
        .formatted(
            peer.rank(),
            from.rank(),
            card.names(),
            senders,
            isMade() && !done ? ", memory is not handed over yet" : "");
  }
}
