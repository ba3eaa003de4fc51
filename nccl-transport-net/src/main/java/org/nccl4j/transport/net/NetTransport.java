package org.nccl4j.transport.net;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.Support;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.Device;
import org.nccl4j.device.InternalErrorException;

/** One communicator's connections over networks. Opens a network when it is first needed. */
final class NetTransport implements Transport {
  private final TransportContext context;
  private final Map<String, Net> nets = new HashMap<>();
  private final List<NetEnd> ends = new ArrayList<>();

  NetTransport(TransportContext context) {
    this.context = context;
  }

  @Override
  public Support canConnect(PeerInfo peer) {
    for (PeerInfo rank : List.of(self(), peer)) {
      if (rank.deviceKind() != Device.Kind.HOST) {
        return Support.no(
            "rank %d's memory is a GPU's (%s), which the network does not carry yet"
                .formatted(rank.rank(), rank.deviceId()));
      }
    }
    return common(peer)
        .map(net -> Support.yes("both have network " + net))
        .orElseGet(
            () ->
                Support.no(
                    "no network in common: rank %d can use %s, rank %d %s"
                        .formatted(self().rank(), self().nets(), peer.rank(), peer.nets())));
  }

  private PeerInfo self() {
    return context.peers().get(context.rank());
  }

  /** The network that both ends take: the best of the lower rank's that the other has too. */
  private Optional<String> common(PeerInfo peer) {
    boolean lower = context.rank() < peer.rank();
    List<String> first = lower ? self().nets() : peer.nets();
    List<String> second = lower ? peer.nets() : self().nets();
    return first.stream().filter(second::contains).findFirst();
  }

  private Net net(PeerInfo peer) {
    String name = common(peer).orElseThrow(() -> stranger(peer));
    return nets.computeIfAbsent(name, this::open);
  }

  private Net open(String name) {
    NetProvider provider =
        context.nets().stream().filter(net -> net.name().equals(name)).findFirst().orElseThrow();
    return provider.open(context);
  }

  private static InternalErrorException stranger(PeerInfo peer) {
    return new InternalErrorException(
        "a connection to rank %d, which no network reaches, is asked for".formatted(peer.rank()),
        "report this");
  }

  @Override
  public Connector sender(PeerInfo peer) {
    return kept(new SendConnector(net(peer), context, peer));
  }

  @Override
  public Connector receiver(PeerInfo peer) {
    return kept(new RecvConnector(net(peer), context, peer));
  }

  private <E extends NetEnd> E kept(E end) {
    ends.add(end);
    return end;
  }

  @Override
  public void close() {
    ends.forEach(NetEnd::close);
    ends.clear();
    nets.values().forEach(Net::close);
    nets.clear();
  }
}
