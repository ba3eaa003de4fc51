package org.nccl4j.api.init.connect;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.stream.IntStream;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.proxy.ProxyThread;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.window.LsaTeam;
import org.nccl4j.api.window.RemotePeers;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.RmaSpace;
import org.nccl4j.device.support.Patience;

/**
 * Connections for one-sided operations with ranks outside the team: one in each direction, over the
 * transport of the pair, for GPUs over a network. Received data are put into windows by the proxy
 * thread, or by a kernel that waits; on GPUs by copies that the thread begins.
 *
 * <p>Where ranks connect when an operation first needs it ({@link RuntimeConnections}), two ranks
 * do so at the first put or signal from one to the other, or wait of one for the other; elsewhere
 * all do at the first window. Kernels' own puts may go to any rank: they connect all at once.
 */
public final class RmaConnections implements RemotePeers {
  private static final byte ALL_AT_ONCE = 0;
  private static final byte LATE = 1;

  private static final long POLL_NANOS = 50_000;

  private final List<PeerInfo> peers;
  private final List<TransportRoutes.NamedTransport> ways;

  /** Takes links that are connected, for reports. */
  private final ConnectionSetup setup;

  private final Bootstrap bootstrap;
  private final KernelCommunicator kernels;
  private final ProxyThread proxy;
  private final KernelDevice device;
  private final Set<Integer> outside = new TreeSet<>();

  /** Connects pairs of ranks when they need it; null where all connect at once. */
  private final RuntimeConnections later;

  /** 1 for each rank that is connected. */
  private final AtomicIntegerArray reached;

  /** Why no rank reaches others; agreed on at the first window. */
  private volatile Obstacle obstacle;

  /** Null before the first window. */
  private volatile RmaSpace.Arrivals arrivals;

  /** Move the messages of the connections. Grows until the end. */
  private final List<ProxyHandler> handlers = new CopyOnWriteArrayList<>();

  /** True if nothing is connected any more. Guarded by the handlers. */
  private boolean over;

  /** Null before the first device communicator with signals. */
  private volatile RmaSpace.KernelPuts kernelPuts;

  private RmaConnections(
      List<PeerInfo> peers,
      LsaTeam team,
      List<TransportRoutes.NamedTransport> ways,
      ConnectionSetup setup,
      Bootstrap bootstrap,
      KernelCommunicator kernels,
      Means means) {
    this.peers = peers;
    this.ways = ways;
    this.setup = setup;
    this.bootstrap = bootstrap;
    this.kernels = kernels;
    this.proxy = means.proxy;
    this.later = means.later;
    this.device = means.device;
    this.reached = new AtomicIntegerArray(peers.size());
    peers.stream().map(PeerInfo::rank).filter(rank -> !team.has(rank)).forEach(outside::add);
  }

  /**
   * This rank's means to connect.
   *
   * @param proxy gives the connections their turns; null where none was needed
   * @param later connects pairs of ranks when they need it; null where all connect at once
   */
  public record Means(KernelDevice device, ProxyThread proxy, RuntimeConnections later) {}

  /**
   * True if ranks need a proxy thread for this.
   *
   * @param team a rank's
   */
  public static boolean areNeeded(List<PeerInfo> peers, LsaTeam team) {
    return team.size() < peers.size()
        && peers.stream().map(PeerInfo::deviceKind).distinct().count() == 1;
  }

  /**
   * The ranks outside a rank's team; not yet connected.
   *
   * @param team this rank's
   * @param verified this rank's connections of other kinds
   * @param transports all that this rank has
   */
  public static RemotePeers of(
      List<PeerInfo> peers,
      LsaTeam team,
      VerifiedConnections verified,
      List<TransportRoutes.NamedTransport> transports,
      Bootstrap bootstrap,
      KernelCommunicator kernels,
      Means means) {
    if (areNeeded(peers, team)) {
      boolean gpus = peers.get(bootstrap.rank()).deviceKind() == Device.Kind.CUDA;
      return new RmaConnections(
          peers,
          team,
          gpus ? byNetwork(peers, transports) : verified.routes(),
          verified.links(),
          bootstrap,
          kernels,
          means);
    }
    return RemotePeers.none(
        "puts between ranks on GPUs and ranks on the host are not supported", "use send and recv");
  }

  /**
   * The processor has to reach the slots, which those of GPUs that load and store each other's
   * memory are not: all go over a network, even within a host. Null for ranks that none reaches.
   *
   * @param transports best first
   */
  static List<TransportRoutes.NamedTransport> byNetwork(
      List<PeerInfo> peers, List<TransportRoutes.NamedTransport> transports) {
    List<TransportRoutes.NamedTransport> ways =
        new ArrayList<>(Collections.nCopies(peers.size(), null));
    for (TransportRoutes.NamedTransport named : transports) {
      if (named.provider().crossesHosts()) {
        for (PeerInfo peer : peers) {
          if (ways.get(peer.rank()) == null && named.transport().canConnect(peer).possible()) {
            ways.set(peer.rank(), named);
          }
        }
      }
    }
    return ways;
  }

  @Override
  public void open(RmaSpace.Windows windows) {
    if (arrivals != null || obstacle != null) {
      return;
    }
    try {
      obstacle = agreedObstacle();
      if (obstacle != null) {
        return;
      }
      RmaSpace.Arrivals made = later == null ? connectAll(windows) : connectNone(windows);
      proxy.attend(handlers, made::doWork);
      if (later != null) {
        later.openPuts(new Late(made));
      }
      arrivals = made;
    } catch (NcclException e) {
      bootstrap.tellFailure(e);
      throw e;
    }
  }

  private RmaSpace.Arrivals connectAll(RmaSpace.Windows windows) {
    ConnectionSetup links = connectOutside();
    RmaSpace space = new RmaSpace(links.sends(), links.recvs(), windows);
    RmaSpace.Arrivals made = kernels.attach(space).orElseThrow();
    handlers.addAll(links.proxyHandlers());
    outside.forEach(peer -> reached.set(peer, 1));
    return made;
  }

  /** Connects with all ranks outside the team at once. Collective. */
  private ConnectionSetup connectOutside() {
    ConnectionSetup made =
        ConnectionSetup.among(
            outside, peers, ways, bootstrap, setup.transportLock(), bootstrap.exchangeEnd());
    made.uncounted(ways).forEach(setup::add);
    return made;
  }

  private RmaSpace.Arrivals connectNone(RmaSpace.Windows windows) {
    List<Connection> none = Collections.nCopies(peers.size(), null);
    return kernels.attach(new RmaSpace(none, none, windows)).orElseThrow();
  }

  /** The connections of puts that are made when two ranks need them. */
  private final class Late implements LateEnds {
    private final RmaSpace.Arrivals made;

    Late(RmaSpace.Arrivals made) {
      this.made = made;
    }

    @Override
    public boolean has(int peer) {
      return outside.contains(peer);
    }

    @Override
    public TransportRoutes.NamedTransport route(int peer) {
      return ways.get(peer);
    }

    @Override
    public Connector sender(int peer) {
      return ways.get(peer).transport().hostSender(peers.get(peer));
    }

    @Override
    public Connector receiver(int peer) {
      return ways.get(peer).transport().hostReceiver(peers.get(peer));
    }

    @Override
    public void connected(int peer, Connector sender, Connector receiver) {
      List<ProxyHandler> more = RuntimeConnections.proxies(sender, receiver);
      synchronized (handlers) {
        if (over) {
          return;
        }
        made.connect(peer, sender.connection(), receiver.connection());
        handlers.addAll(more);
        proxy.attend(more);
      }
      setup.add(new UncountedLink(peer, ways.get(peer).name(), sender));
      reached.set(peer, 1);
    }
  }

  @Override
  @HotPath
  public boolean isReached(int rank) {
    return reached.get(rank) != 0;
  }

  @Override
  public void reach(Set<Integer> ranks) {
    for (int rank : ranks) {
      if (!isReached(rank)) {
        later.connectPuts(ranks);
        return;
      }
    }
  }

  /**
   * {@inheritDoc} Kernels' puts have connections of their own: the proxy numbers their messages,
   * and streams those of the others.
   */
  @Override
  public RmaSpace.KernelRing kernelRing(RmaSpace.Windows windows, int signals) {
    open(windows);
    if (obstacle != null) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "kernels cannot put to ranks outside the team: " + obstacle.problem(),
          "ask for no signals, or " + obstacle.remedy());
    }
    try {
      if (kernelPuts == null) {
        kernelPuts = connectKernels(windows);
      }
      return kernelPuts.open(signals);
    } catch (NcclException e) {
      bootstrap.tellFailure(e);
      throw e;
    }
  }

  private RmaSpace.KernelPuts connectKernels(RmaSpace.Windows windows) {
    ConnectionSetup links = connectOutside();
    RmaSpace space = new RmaSpace(links.sends(), links.recvs(), windows);
    RmaSpace.KernelPuts made = kernels.attachKernelPuts(space).orElseThrow();
    handlers.addAll(links.proxyHandlers()); // they may receive in windows, too
    List<ProxyHandler> ofKernels = new ArrayList<>(links.proxyHandlers());
    ofKernels.add(new KernelPutsHandler(made));
    proxy.attend(ofKernels);
    return made;
  }

  /** Gives kernels' puts their turns, at all times: no kernel tells the proxy of them. */
  private record KernelPutsHandler(RmaSpace.KernelPuts puts) implements ProxyHandler {
    @Override
    public int doWork() {
      return puts.doWork();
    }

    @Override
    public boolean isUnderWay() {
      return false;
    }

    @Override
    public boolean isPolled() {
      return true;
    }
  }

  /** The first rank's that has one; all ranks connect, or none. */
  private Obstacle agreedObstacle() {
    byte mode = later == null ? ALL_AT_ONCE : LATE;
    byte[] own = ownObstacle().getBytes(StandardCharsets.UTF_8);
    List<byte[]> all =
        bootstrap.allGather(ByteBuffer.allocate(1 + own.length).put(mode).put(own).array());
    for (int rank = 0; rank < all.size(); rank++) {
      if (all.get(rank)[0] != mode) {
        throw new InvalidUsageException(
            ErrorId.SETTINGS_DIFFER,
            "ranks %d and %d differ in when they connect for puts"
                .formatted(bootstrap.rank(), rank),
            "give all ranks the same NCCL_RUNTIME_CONNECT");
      }
    }
    for (int rank = 0; rank < all.size(); rank++) {
      int length = all.get(rank).length - 1;
      if (length > 0) {
        String why = new String(all.get(rank), 1, length, StandardCharsets.UTF_8);
        return new Obstacle("rank %d says: %s".formatted(rank, why), "use send and recv");
      }
    }
    return null;
  }

  private String ownObstacle() {
    for (int peer : outside) {
      if (ways.get(peer) == null) {
        return "no network connects it to rank %d, and no other transport carries puts"
            .formatted(peer);
      }
    }
    return device.remoteAbsence().orElse("");
  }

  @Override
  public boolean isOpen() {
    return arrivals != null;
  }

  @Override
  public Optional<Obstacle> obstacle() {
    return Optional.ofNullable(obstacle);
  }

  @Override
  public List<Long> sent() {
    RmaSpace.Arrivals open = arrivals;
    return open == null
        ? List.of()
        : IntStream.range(0, peers.size()).mapToObj(open::sent).toList();
  }

  @Override
  public void awaitArrived(List<Long> due) {
    long endNanos = bootstrap.exchangeEnd();
    for (int peer : outside) {
      while (arrivals.arrived(peer) < due.get(peer)) {
        if (kernels.failure() != null) {
          throw kernels.failure().again();
        }
        bootstrap.checkFailure();
        if (System.nanoTime() - endNanos > 0) {
          throw late(peer, due.get(peer));
        }
        if (proxy.doWork() == 0) {
          Patience.sleep(POLL_NANOS);
        }
      }
    }
  }

  private TimeoutException late(int peer, long due) {
    return new TimeoutException(
        ErrorId.OPERATION,
        "rank %d received %d of %d puts and signals from rank %d by the deadline"
            .formatted(bootstrap.rank(), arrivals.arrived(peer), due, peer),
        "look at the network between the two, or give more time (withInitTimeout or"
            + " NCCL4J_INIT_TIMEOUT)");
  }

  @Override
  public boolean end() {
    RmaSpace.KernelPuts ofKernels = kernelPuts;
    boolean ended = ofKernels == null || ofKernels.end();
    if (arrivals != null) {
      synchronized (handlers) {
        over = true;
      }
      ended &= proxy.neglect() && proxy.endReceives(handlers);
      arrivals.end();
    }
    return ended;
  }
}
