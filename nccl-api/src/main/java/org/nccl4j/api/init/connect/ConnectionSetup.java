package org.nccl4j.api.init.connect;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.IntFunction;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.observe.flight.Link;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.spi.PxnTransport;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.support.Patience;

/** Connects this rank with others: a connector for each direction, with its handle exchanged. */
public final class ConnectionSetup {
  private static final long POLL_NANOS = 50_000;

  /** Longest sleep between two looks: the more threads wait, the less they keep from others. */
  private static final long LONGEST_POLL_NANOS = 2_000_000;

  private static final long GRACE_NANOS = 500_000_000;

  private final int rank;
  private final boolean onHost;

  /** By rank; null where there is no connection. */
  private final List<Connector> senders;

  private final List<Connector> receivers;

  /** Ranks whose memory cannot be opened, and why; they have no connections. */
  private final Map<Integer, NcclException> refused = new TreeMap<>();

  /** Connectors through which this rank sends for other ranks, by sender and receiver. */
  private final Map<String, UncountedLink> relays = new LinkedHashMap<>();

  /** Links that are made after the creation; read by any thread. */
  private final List<Link> late = new CopyOnWriteArrayList<>();

  /** Held during calls of this rank's transports and of their connectors. */
  private final Object transportLock;

  /** No connections yet; those whose slots the processor is to reach too, or any. */
  private ConnectionSetup(int rank, int nRanks, boolean onHost, Object transportLock) {
    this.rank = rank;
    this.senders = new ArrayList<>(Collections.nCopies(nRanks, null));
    this.receivers = new ArrayList<>(senders);
    this.onHost = onHost;
    this.transportLock = transportLock;
  }

  /**
   * Makes connections; returns once this rank's are made. All ranks take part.
   *
   * @param which ranks that connect with this one likewise, in the order in which connectors are
   *     created
   * @param routes the transport to each rank, by rank; null at this one
   * @param transports all that this rank has
   * @param endNanos when to give up
   */
  static ConnectionSetup connect(
      Set<Integer> which,
      List<PeerInfo> peers,
      List<TransportRoutes.NamedTransport> routes,
      List<TransportRoutes.NamedTransport> transports,
      Bootstrap bootstrap,
      long endNanos) {
    ConnectionSetup links =
        new ConnectionSetup(bootstrap.rank(), peers.size(), /* onHost= */ false, new Object());
    links.connectWith(which, peers, routes, transports, bootstrap, endNanos);
    return links;
  }

  /**
   * Connects with some of the ranks, once more beside what there is, by connections whose slots the
   * processor reaches too; all ranks take part.
   *
   * @param which ranks that connect with this one likewise
   * @param transportLock as {@link #transportLock()}
   * @return links to these; none to the others
   */
  static ConnectionSetup among(
      Set<Integer> which,
      List<PeerInfo> peers,
      List<TransportRoutes.NamedTransport> routes,
      Bootstrap bootstrap,
      Object transportLock,
      long endNanos) {
    ConnectionSetup links =
        new ConnectionSetup(bootstrap.rank(), peers.size(), /* onHost= */ true, transportLock);
    links.connectWith(which, peers, routes, List.of(), bootstrap, endNanos);
    links.checkRefused(bootstrap);
    return links;
  }

  /**
   * Connects with some ranks, by other transports if it was connected with them; all ranks take
   * part. Former connectors are their transports'.
   *
   * @param which ranks that connect with this one likewise
   */
  void connectWith(
      Set<Integer> which,
      List<PeerInfo> peers,
      List<TransportRoutes.NamedTransport> routes,
      List<TransportRoutes.NamedTransport> transports,
      Bootstrap bootstrap,
      long endNanos) {
    OpenFiles.Promise descriptors = OpenFiles.ofProcess().promise(need(which, peers, routes));
    try {
      connectPromised(which, peers, routes, transports, bootstrap, endNanos);
    } finally {
      descriptors.close();
    }
  }

  private OpenFiles.Need need(
      Set<Integer> which, List<PeerInfo> peers, List<TransportRoutes.NamedTransport> routes) {
    synchronized (transportLock) {
      return need(rank, which, peers, routes::get);
    }
  }

  /** The descriptors for connections with some ranks; to be called with the transports' lock. */
  static OpenFiles.Need need(
      int rank,
      Collection<Integer> which,
      List<PeerInfo> peers,
      IntFunction<TransportRoutes.NamedTransport> routes) {
    Map<Transport, List<PeerInfo>> by = new IdentityHashMap<>();
    for (int peer : which) {
      by.computeIfAbsent(routes.apply(peer).transport(), key -> new ArrayList<>())
          .add(peers.get(peer));
    }
    long descriptors = 0;
    for (Map.Entry<Transport, List<PeerInfo>> each : by.entrySet()) {
      descriptors += each.getKey().descriptors(each.getValue());
    }
    String process = peers.get(rank).processId();
    int here = (int) peers.stream().filter(peer -> peer.processId().equals(process)).count();
    return new OpenFiles.Need(rank, which.size(), descriptors, here);
  }

  private void connectPromised(
      Set<Integer> which,
      List<PeerInfo> peers,
      List<TransportRoutes.NamedTransport> routes,
      List<TransportRoutes.NamedTransport> transports,
      Bootstrap bootstrap,
      long endNanos) {
    synchronized (transportLock) {
      for (int peer : which) {
        Transport by = routes.get(peer).transport();
        PeerInfo info = peers.get(peer);
        senders.set(peer, onHost ? by.hostSender(info) : by.sender(info));
        receivers.set(peer, onHost ? by.hostReceiver(info) : by.receiver(info));
      }
    }
    List<byte[]> told = bootstrap.allGather(ConnectHandles.toBytes(offers(which, routes)));
    List<Pending> pending = new ArrayList<>();
    for (int peer : which) {
      ConnectHandles.Offer theirs = offer(told, peer, rank);
      pending.add(new Pending(senders.get(peer), theirs.receiver(), peer));
      pending.add(new Pending(receivers.get(peer), theirs.sender(), peer));
    }
    pending.addAll(asked(told, peers, transports));
    refused.keySet().removeAll(which);
    connect(pending, bootstrap, endNanos);
  }

  private Map<Integer, ConnectHandles.Offer> offers(
      Set<Integer> which, List<TransportRoutes.NamedTransport> routes) {
    Map<Integer, ConnectHandles.Offer> offers = new TreeMap<>();
    for (int peer : which) {
      offers.put(
          peer, ConnectHandles.Offer.of(senders.get(peer), receivers.get(peer), routes.get(peer)));
    }
    return offers;
  }

  private static ConnectHandles.Offer offer(List<byte[]> told, int from, int to) {
    return ConnectHandles.find(from, told.get(from), to)
        .orElseThrow(
            () ->
                new InvalidUsageException(
                    ErrorId.SETTINGS_DIFFER,
                    "rank %d connects to rank %d now, but rank %d does not connect back"
                        .formatted(to, from, from),
                    "give all ranks the same settings, NCCL_RUNTIME_CONNECT above all"));
  }

  /** Connections of others that this rank is to carry: made like its own, and at the same time. */
  private List<Pending> asked(
      List<byte[]> told, List<PeerInfo> peers, List<TransportRoutes.NamedTransport> transports) {
    List<Pending> pending = new ArrayList<>();
    for (int sender = 0; sender < told.size(); sender++) {
      int from = sender;
      if (from == rank) {
        continue;
      }
      ConnectHandles.relayedBy(rank, from, told.get(from))
          .forEach(
              (to, offer) -> {
                Connector relay =
                    forwarder(rank, offer.transport(), from, transports)
                        .relay(peers.get(from), peers.get(to), offer.sender());
                relays.put(from + " to " + to, new UncountedLink(to, offer.transport(), relay));
                pending.add(new Pending(relay, offer(told, to, from).receiver(), to));
              });
    }
    return pending;
  }

  /**
   * A rank's transport that forwards another's data.
   *
   * @throws InvalidUsageException if it has none of the name
   */
  static PxnTransport forwarder(
      int rank, String name, int from, List<TransportRoutes.NamedTransport> transports) {
    return transports.stream()
        .filter(named -> named.name().equals(name))
        .map(TransportRoutes.NamedTransport::transport)
        .filter(PxnTransport.class::isInstance)
        .map(PxnTransport.class::cast)
        .findFirst()
        .orElseThrow(
            () ->
                new InvalidUsageException(
                    ErrorId.RANKS_DIFFER,
                    ("rank %d is to forward the data of rank %d by transport %s, which it does not"
                            + " have or which does not forward")
                        .formatted(rank, from, name),
                    "put the same versions of the same transports on the path of all ranks, or set"
                        + " NCCL_PXN_DISABLE=1"));
  }

  private void connect(List<Pending> pending, Bootstrap bootstrap, long endNanos) {
    long sleep = POLL_NANOS;
    while (true) {
      int before = pending.size();
      try {
        synchronized (transportLock) {
          pending.removeIf(this::isDone);
        }
        pending.removeIf(one -> refused.containsKey(one.peer) && isOwn(one));
      } catch (NcclException e) {
        awaitCause(bootstrap);
        throw e;
      }
      if (pending.isEmpty()) {
        return;
      }
      bootstrap.checkFailure();
      checkInterrupt();
      if (System.nanoTime() - endNanos > 0) {
        Pending first = pending.get(0);
        throw new TimeoutException(
            ErrorId.NOT_CONNECTED,
            "rank %d is not connected with rank %d by the deadline: %s"
                .formatted(rank, first.peer, first.connector),
            "look at rank %d's log, or give more time (withInitTimeout or NCCL4J_INIT_TIMEOUT)"
                .formatted(first.peer));
      }
      sleep = pending.size() < before ? POLL_NANOS : Math.min(2 * sleep, LONGEST_POLL_NANOS);
      Patience.sleep(sleep);
    }
  }

  /** Why memory of some ranks cannot be opened, by rank; there are no connections with them. */
  Map<Integer, NcclException> refused() {
    return Collections.unmodifiableMap(refused);
  }

  /**
   * Ends where there is no other way to a rank whose memory cannot be opened.
   *
   * @throws NcclException with the reason, if there is such a rank
   */
  void checkRefused(Bootstrap bootstrap) {
    if (!refused.isEmpty()) {
      awaitCause(bootstrap);
      throw refused.values().iterator().next();
    }
  }

  /** Not of those that carry what another rank sends. */
  private boolean isOwn(Pending one) {
    return relays.values().stream().noneMatch(relay -> relay.sender() == one.connector);
  }

  /** True if a connection is made, or is never to be. */
  private boolean isDone(Pending one) {
    try {
      return one.isConnected();
    } catch (RemoteException e) {
      if (e.id() != ErrorId.PEER_MEMORY || !isOwn(one)) {
        throw e;
      }
      refused.put(one.peer, e);
      senders.set(one.peer, null);
      receivers.set(one.peer, null);
      return true;
    }
  }

  /**
   * Waits for the cause of a broken connection: it may be another rank's failure, of which word is
   * on its way.
   */
  static void awaitCause(Bootstrap bootstrap) {
    long end = System.nanoTime() + GRACE_NANOS;
    while (System.nanoTime() - end < 0 && !Thread.currentThread().isInterrupted()) {
      bootstrap.checkFailure();
      Patience.sleep(POLL_NANOS);
    }
  }

  private void checkInterrupt() {
    if (Thread.currentThread().isInterrupted()) {
      throw new InvalidUsageException(
          ErrorId.INTERRUPTED,
          "rank %d's thread was interrupted while it connected with other ranks".formatted(rank),
          "do not interrupt a thread that is creating a communicator");
    }
  }

  private record Pending(Connector connector, byte[] remoteHandle, int peer) {
    boolean isConnected() {
      return connector.connect(remoteHandle);
    }
  }

  /**
   * The lock for calls of this rank's transports: connections may be made by several threads, long
   * after the creation too.
   */
  Object transportLock() {
    return transportLock;
  }

  /** The ranks whose memory kernels of this rank's GPU load and store themselves. */
  List<Integer> loadedAndStored(List<PeerInfo> peers) {
    return peers.stream()
        .filter(peer -> peer.rank() != rank && peer.deviceKind() == Device.Kind.CUDA)
        .map(PeerInfo::rank)
        .filter(peer -> senders.get(peer) != null && senders.get(peer).proxy().isEmpty())
        .toList();
  }

  /** Connections to each rank; null at this one. */
  public List<Connection> sends() {
    return connections(senders);
  }

  /** Connections from each rank; null at this one. */
  public List<Connection> recvs() {
    return connections(receivers);
  }

  private static List<Connection> connections(List<Connector> connectors) {
    List<Connection> connections = new ArrayList<>();
    for (Connector connector : connectors) {
      connections.add(connector == null ? null : connector.connection());
    }
    return connections;
  }

  /**
   * Channels that all of this rank's connections with some ranks have.
   *
   * @param which true for these ranks
   */
  public int channels(IntPredicate which) {
    List<Connection> sends = sends();
    return IntStream.range(0, sends.size())
        .filter(which)
        .mapToObj(sends::get)
        .filter(Objects::nonNull)
        .mapToInt(Connection::channels)
        .min()
        .orElse(ConnectionLayout.CHANNELS);
  }

  /** True if all of this rank's connections have slots of LL that can be used. */
  public boolean lines() {
    return Stream.concat(sends().stream(), recvs().stream())
        .filter(Objects::nonNull)
        .allMatch(Connection::lines);
  }

  /**
   * The links by which this rank sends and receives for itself, and those by which it sends for
   * others. To be called once they are connected.
   *
   * @param routes the transports that they are by
   */
  public List<Link> links(List<TransportRoutes.NamedTransport> routes) {
    List<Link> links = new ArrayList<>();
    for (int peer = 0; peer < senders.size(); peer++) {
      if (senders.get(peer) != null) {
        links.add(
            new ConnectedLink(
                peer, routes.get(peer).name(), senders.get(peer), receivers.get(peer)));
      }
    }
    links.addAll(relays.values());
    return links;
  }

  /**
   * Links of puts, once they are connected.
   *
   * @param routes the transports that they are by
   */
  List<Link> uncounted(List<TransportRoutes.NamedTransport> routes) {
    List<Link> links = new ArrayList<>();
    for (int peer = 0; peer < senders.size(); peer++) {
      if (senders.get(peer) != null) {
        links.add(new UncountedLink(peer, routes.get(peer).name(), senders.get(peer)));
      }
    }
    return links;
  }

  /** Takes a link that was made after the creation. Any thread. */
  void add(Link link) {
    late.add(link);
  }

  /** The links that have been made since the creation: grows. Any thread. */
  public List<Link> late() {
    return late;
  }

  /** Work for the proxy, if any transport has some. */
  public List<ProxyHandler> proxyHandlers() {
    List<ProxyHandler> handlers = new ArrayList<>();
    for (int peer = 0; peer < senders.size(); peer++) {
      if (senders.get(peer) != null) {
        senders.get(peer).proxy().ifPresent(handlers::add);
        receivers.get(peer).proxy().ifPresent(handlers::add);
      }
    }
    relays.values().forEach(relay -> relay.sender().proxy().ifPresent(handlers::add));
    return handlers;
  }
}
