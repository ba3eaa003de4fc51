package org.nccl4j.transport.net;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Stream;
import org.nccl4j.api.spi.LinkStatus;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.transport.net.memory.ProxyChannel;
import org.nccl4j.transport.net.proxy.RecvProxy;

/** The receiving end; it listens for the sending end. */
final class RecvConnector extends NetEnd {
  private final List<NetListener> listeners = new ArrayList<>();

  /** Receivers by channel; null where none has come. */
  private final NetReceiver[] receivers = new NetReceiver[channels()];

  private final List<RecvProxy> proxies = new CopyOnWriteArrayList<>();
  private final String via;
  private boolean done;

  /**
   * An end.
   *
   * @param pair whether this rank is going to connect to the peer, too, and by itself
   * @param which its connection among those of the two ranks
   */
  RecvConnector(NicChoice card, TransportContext context, PeerInfo peer, boolean pair, int which) {
    super(context, peer, card, false, which, channels(context, peer));
    via = card.via();
    boolean complete = false;
    try {
      for (int number = 0; number < channels(); number++) {
        listeners.add(
            pair
                ? card.net().listen(card.device(number), peer.rank())
                : card.net().listen(card.device(number)));
      }
      complete = true;
    } finally {
      if (!complete) {
        close();
      }
    }
  }

  @Override
  public byte[] handle() {
    return HandleList.join(listeners.stream().map(NetListener::handle).toList());
  }

  @Override
  public boolean connect(byte[] remoteHandle) {
    boolean all = true;
    for (int number = 0; number < receivers.length; number++) {
      if (receivers[number] == null) {
        receivers[number] = listeners.get(number).accept();
      }
      all &= receivers[number] != null;
    }
    if (all && !done) {
      done = true;
      connected(List.of(receivers));
      listeners.forEach(NetListener::close);
    }
    return done;
  }

  @Override
  ProxyHandler proxy(int number, ProxyChannel channel) {
    NetReceiver receiver = receivers[number];
    RecvProxy proxy =
        new RecvProxy(
            receiver,
            channel,
            ranks(),
            isPolled(),
            events(channel),
            placedBuffers(channel, receiver).orElse(null));
    proxies.add(proxy);
    return proxy;
  }

  @Override
  public LinkStatus status() {
    long received = 0;
    for (RecvProxy proxy : proxies) {
      received += proxy.bytesReceived();
    }
    return LinkStatus.received(received, hasRoom(), via);
  }

  /** True if every channel has room; a channel that is not in use has at all times. */
  private boolean hasRoom() {
    for (RecvProxy proxy : proxies) {
      if (!proxy.hasRoom()) {
        return false;
      }
    }
    return !proxies.isEmpty();
  }

  @Override
  void closeProxies(CloseAll all) {
    proxies.forEach(proxy -> all.take(proxy::close));
  }

  @Override
  void closeUnmade(CloseAll all) {
    listeners.forEach(listener -> all.take(listener::close));
    if (!done) {
      Stream.of(receivers).filter(Objects::nonNull).forEach(receiver -> all.take(receiver::close));
    }
  }

  @Override
  public String toString() {
    return "receiver from rank %d: %s".formatted(peer.rank(), listeners);
  }
}
