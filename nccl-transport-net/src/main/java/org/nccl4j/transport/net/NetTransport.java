package org.nccl4j.transport.net;

import java.lang.System.Logger;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.Support;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.cuda.CudaDevice;

/** One communicator's connections over networks. Opens a network when it is first needed. */
final class NetTransport implements Transport {
  private static final Logger LOG = DebugLog.of("NET");

  private final TransportContext context;
  private final Set<String> fallbacks = new HashSet<>();
  private final Map<String, Net> nets = new HashMap<>();
  private final List<NetEnd> ends = new ArrayList<>();

  /** Null on the host device. */
  private final GpuSlots slots;

  NetTransport(TransportContext context) {
    this.context = context;
    this.slots = context.device() instanceof CudaDevice gpu ? new GpuSlots(context, gpu) : null;
  }

  @Override
  public long memoryBytes() {
    return slots == null ? 0 : slots.bytes();
  }

  @Override
  public Support canConnect(PeerInfo peer) {
    if (self().deviceKind() != peer.deviceKind()) {
      return Support.no(
          "rank %d's device is of another kind (%s) than rank %d's (%s)"
              .formatted(peer.rank(), peer.deviceId(), self().rank(), self().deviceId()));
    }
    return common(peer)
        .map(net -> Support.yes("both have network " + net + by(net)))
        .orElseGet(
            () ->
                Support.no(
                    "no network in common: rank %d can use %s, rank %d %s"
                        .formatted(self().rank(), self().nets(), peer.rank(), peer.nets())));
  }

  /** Where a GPU's data go; what cannot be known yet is said when it is needed. */
  private String by(String net) {
    if (slots == null) {
      return "";
    }
    try {
      return ", by " + card(opened(net)).describe();
    } catch (NcclException e) {
      return ", " + e.problem();
    }
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
    nameFallback(name, peer);
    return opened(name);
  }

  /** Says, once for each network, that ranks without it have another used with them. */
  private void nameFallback(String name, PeerInfo peer) {
    String best = self().nets().get(0);
    if (!best.equals(name) && !peer.nets().contains(best) && fallbacks.add(best + name)) {
      LOG.log(
          Logger.Level.WARNING,
          "rank {0} can use network {1}, rank {2} only {3}: they use {4}; run ./nccl doctor on rank"
              + " {2}''s host to see what it lacks, or set NCCL_NET={1} to have an error instead",
          self().rank(),
          best,
          peer.rank(),
          peer.nets(),
          name);
    }
  }

  private Net opened(String name) {
    return nets.computeIfAbsent(name, this::open);
  }

  private Net open(String name) {
    NetProvider provider =
        context.nets().stream().filter(net -> net.name().equals(name)).findFirst().orElseThrow();
    return provider.open(context);
  }

  private CardChoice card(Net net) {
    int device =
        DeviceChoice.of(context.rank(), context.peers(), net.devices(), context.nearestNets());
    return new CardChoice(net, device, slots);
  }

  private static InternalErrorException stranger(PeerInfo peer) {
    return new InternalErrorException(
        "a connection to rank %d, which no network reaches, is asked for".formatted(peer.rank()),
        "report this");
  }

  @Override
  public Connector sender(PeerInfo peer) {
    return kept(new SendConnector(card(net(peer)), context, peer));
  }

  @Override
  public Connector receiver(PeerInfo peer) {
    return kept(new RecvConnector(card(net(peer)), context, peer));
  }

  @Override
  public Connector hostSender(PeerInfo peer) {
    return kept(new SendConnector(card(net(peer)).withoutGpu(), context, peer));
  }

  @Override
  public Connector hostReceiver(PeerInfo peer) {
    return kept(new RecvConnector(card(net(peer)).withoutGpu(), context, peer));
  }

  private <E extends NetEnd> E kept(E end) {
    ends.add(end);
    return end;
  }

  @Override
  public void close() {
    ends.forEach(NetEnd::close);
    ends.clear();
    if (slots != null) {
      slots.close();
    }
    nets.values().forEach(Net::close);
    nets.clear();
  }
}
