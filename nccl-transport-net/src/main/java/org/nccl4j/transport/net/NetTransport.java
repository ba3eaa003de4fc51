package org.nccl4j.transport.net;

import java.lang.System.Logger;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.PxnTransport;
import org.nccl4j.api.spi.Support;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.api.wire.TeardownBarrier;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.transport.net.memory.GpuSlots;

/** One communicator's connections over networks. Opens a network when it is first needed. */
final class NetTransport implements PxnTransport {
  private static final Logger LOG = DebugLog.of("NET");

  /** Time that close waits for ranks of other processes for which this one sends. */
  private static final Duration PATIENCE = Duration.ofSeconds(2);

  private final TransportContext context;
  private final Set<String> fallbacks = new HashSet<>();
  private final Map<String, Net> nets = new HashMap<>();
  private final List<NetConnector> ends = new ArrayList<>();
  private final List<PxnConnector> relays = new ArrayList<>();
  private final NetProtection protection;
  private final PxnRoutes routes;
  private final PxnMail mail;

  /** Null on the host device. */
  private final GpuSlots slots;

  private boolean closed;

  NetTransport(TransportContext context) {
    this.context = context;
    this.protection = new NetProtection(context);
    this.routes = new PxnRoutes(context);
    this.mail = new PxnMail(context.secret());
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
        .map(net -> Support.yes("both have network " + net + by(net, peer)))
        .orElseGet(
            () ->
                Support.no(
                    "no network in common: rank %d can use %s, rank %d %s"
                        .formatted(self().rank(), self().nets(), peer.rank(), peer.nets())));
  }

  /**
   * Returns the card or relay of a GPU's data, as the end of a sentence. A route that is still
   * unknown is reported when it is needed.
   */
  private String by(String net, PeerInfo peer) {
    if (slots == null && context.egressTo(peer.rank()).isEmpty()) {
      return zeroCopy();
    }
    try {
      Net by = opened(net);
      Optional<PxnRoutes.Route> relay = routes.relay(peer, net, by);
      return relay.isPresent()
          ? ", " + relay.get().describe()
          : slots == null ? zeroCopy() : ", by " + card(by, peer).describe();
    } catch (NcclException e) {
      return ", " + e.problem();
    }
  }

  private String zeroCopy() {
    return NetEnd.isZeroCopy(context)
        ? "; steps of %d KiB are sent without a copy from %s"
            .formatted(
                NetEnd.LEAST_EXPOSED >> 10,
                NetEnd.takesAll(context) ? "buffers that it takes" : "registered buffers")
        : "; data are copied before they are sent";
  }

  private PeerInfo self() {
    return context.peers().get(context.rank());
  }

  /** The network that both ends take. */
  private Optional<String> common(PeerInfo peer) {
    return CommonNetwork.of(self(), peer);
  }

  private Net net(PeerInfo peer) {
    String name = common(peer).orElseThrow(() -> stranger(peer));
    nameFallback(name, peer);
    Net net = opened(name);
    protection.check(name, net);
    return net;
  }

  /** Says, once for each network, that ranks without it have another used with them. */
  private void nameFallback(String name, PeerInfo peer) {
    String best = self().nets().get(0);
    if (!best.equals(name) && !peer.nets().contains(best) && fallbacks.add(best + name)) {
      LOG.log(
          Logger.Level.WARNING,
          "rank {0} can use network {1}, rank {2} only {3}: they use {4}; run ./nccl doctor on rank"
              + " {2}''s host to find the cause, or set NCCL_NET={1} to get an error instead",
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

  /** To receive by. */
  private NicChoice nearest(Net net, PeerInfo peer) {
    return card(net, peer, List.of(), takesTurns(peer, self(), net));
  }

  /** To send by. */
  private NicChoice card(Net net, PeerInfo peer) {
    return card(net, peer, routes.ownDevices(peer), takesTurns(self(), peer, net));
  }

  /** True if the channels of a connection take turns with devices, as both ends find. */
  private boolean takesTurns(PeerInfo from, PeerInfo to, Net net) {
    return routes.leadsAsPlanned(from, to, nameOf(net))
        && context.takesTurns(from.rank(), to.rank());
  }

  private NicChoice card(Net net, PeerInfo peer, List<String> out, boolean takesTurns) {
    List<String> names = new ArrayList<>(out);
    context.nearestNets().forEach(near -> names.addAll(near.names()));
    int one = DeviceChoice.of(context.rank(), context.peers(), net.devices(), names);
    int channels = takesTurns ? NetChannelCount.of(context, peer.rank()) : 1;
    return choice(net, channels, one, /* shared= */ false);
  }

  /**
   * The devices of a connection's channels.
   *
   * @param channels that take turns with devices
   * @param one the device where they do not
   */
  private NicChoice choice(Net net, int channels, int one, boolean shared) {
    boolean single = slots == null || net.spreads() || channels == 1;
    List<NicChoice.Turn> turns =
        single ? List.of() : DeviceChoice.ofChannels(net.devices(), context.nearestNets());
    return turns.size() > 1
        ? new NicChoice(nameOf(net), net, turns, slots, shared, /* onHost= */ false)
        : new NicChoice(nameOf(net), net, one, slots, shared);
  }

  private String nameOf(Net net) {
    return nets.entrySet().stream()
        .filter(each -> each.getValue() == net)
        .map(Map.Entry::getKey)
        .findFirst()
        .orElseThrow();
  }

  private static InternalErrorException stranger(PeerInfo peer) {
    return new InternalErrorException(
        "a connection to rank %d is requested, but no network reaches it".formatted(peer.rank()),
        "report this");
  }

  @Override
  public int descriptors(List<PeerInfo> peers) {
    Map<Net, Integer> pairs = new IdentityHashMap<>();
    for (PeerInfo peer : peers) {
      int channels = slots == null ? 1 : NetChannelCount.of(context, peer.rank());
      pairs.merge(net(peer), channels, Integer::sum);
    }
    return pairs.entrySet().stream()
        .mapToInt(each -> each.getKey().descriptors(each.getValue()))
        .sum();
  }

  @Override
  public Connector sender(PeerInfo peer) {
    Net net = net(peer);
    String name = common(peer).orElseThrow();
    Optional<PxnRoutes.Route> relay = routes.relay(peer, name, net);
    return relay.isPresent()
        ? kept(new PxnSender(context, peer, relay.get(), mail, name))
        : ownSender(peer);
  }

  @Override
  public Connector ownSender(PeerInfo peer) {
    return kept(new SendConnector(card(net(peer), peer), context, peer, NetEnd.OPERATIONS));
  }

  @Override
  public Connector receiver(PeerInfo peer) {
    Net net = net(peer);
    boolean pair = routes.relay(peer, common(peer).orElseThrow(), net).isEmpty();
    return kept(new RecvConnector(nearest(net, peer), context, peer, pair, NetEnd.OPERATIONS));
  }

  @Override
  public Connector hostSender(PeerInfo peer) {
    NicChoice card = nearest(net(peer), peer).withHostSlots();
    return kept(new SendConnector(card, context, peer, NetEnd.MESSAGES));
  }

  @Override
  public Connector hostReceiver(PeerInfo peer) {
    NicChoice card = nearest(net(peer), peer).withHostSlots();
    return kept(new RecvConnector(card, context, peer, /* pair= */ false, NetEnd.MESSAGES));
  }

  @Override
  public OptionalInt relay(Connector sender) {
    return sender instanceof PxnSender pxn ? OptionalInt.of(pxn.relay()) : OptionalInt.empty();
  }

  @Override
  public Connector relay(PeerInfo from, PeerInfo to, byte[] bytes) {
    PxnRequest request = PxnRequest.fromBytes(from.rank(), bytes);
    Net net = routes.network(request, from, self().nets(), this::opened);
    int device = routes.device(request, from, net);
    int channels = takesTurns(from, to, net) ? request.channels() : 1;
    NicChoice card = choice(net, channels, device, /* shared= */ true);
    PxnConnector relay = new PxnConnector(card, context, from, to, request, mail);
    relays.add(relay);
    return relay;
  }

  private <E extends NetConnector> E kept(E end) {
    ends.add(end);
    return end;
  }

  /**
   * Closes the transport. A rank alone in its process waits for other ranks, because the process
   * may end soon after.
   */
  @Override
  public void close() {
    CloseAll all = new CloseAll();
    ends.forEach(end -> all.take(end::close));
    ends.clear();
    all.take(mail::leave);
    String process = self().processId();
    boolean alone =
        context.peers().stream().filter(p -> p.processId().equals(process)).count() == 1;
    List<PxnConnector> last = List.copyOf(relays);
    relays.clear();
    if (!closed) {
      closed = true;
      all.take(
          () ->
              TeardownBarrier.pass(
                  new PxnTeardown(context.rank(), last, this::free),
                  "nccl4j-relay-" + context.rank(),
                  alone ? PATIENCE : Duration.ZERO,
                  TeardownBarrier.FOREVER));
    }
    all.end();
  }

  private void free() {
    CloseAll all = new CloseAll();
    if (slots != null) {
      all.take(slots::close);
    }
    nets.values().forEach(net -> all.take(net::close));
    nets.clear();
    all.take(mail::close);
    all.end();
  }
}
