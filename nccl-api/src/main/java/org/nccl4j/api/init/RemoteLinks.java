package org.nccl4j.api.init;

import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.proxy.ProxyThread;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.window.RemotePeers;
import org.nccl4j.api.window.Team;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.RemoteSpace;

/**
 * Connections for one-sided operations with ranks outside the team: one each way with each of them,
 * by the transport that the pair has anyway. What comes is put into windows by the proxy thread, or
 * by a kernel that waits.
 */
final class RemoteLinks implements RemotePeers {
  private static final long POLL_NANOS = 50_000;

  private final List<PeerInfo> peers;
  private final List<Routes.NamedTransport> routes;
  private final Bootstrap bootstrap;
  private final KernelCommunicator kernels;
  private final ProxyThread proxy;
  private final Set<Integer> outside = new TreeSet<>();

  /** Null before the first window. */
  private volatile RemoteSpace.Arrivals arrivals;

  private RemoteLinks(
      List<PeerInfo> peers,
      List<Routes.NamedTransport> routes,
      Bootstrap bootstrap,
      KernelCommunicator kernels,
      ProxyThread proxy) {
    this.peers = peers;
    this.routes = routes;
    this.bootstrap = bootstrap;
    this.kernels = kernels;
    this.proxy = proxy;
    Team team = Team.of(peers, bootstrap.rank());
    peers.stream().map(PeerInfo::rank).filter(rank -> !team.has(rank)).forEach(outside::add);
  }

  /** Whether ranks need a proxy thread for this. */
  static boolean areNeeded(List<PeerInfo> peers, int rank) {
    return Team.of(peers, rank).size() < peers.size()
        && peers.stream().allMatch(peer -> peer.deviceKind() == Device.Kind.HOST);
  }

  /**
   * The ranks outside a rank's team; not yet connected.
   *
   * @param proxy gives the connections their turns; null where none was needed
   */
  static RemotePeers of(
      List<PeerInfo> peers,
      List<Routes.NamedTransport> routes,
      Bootstrap bootstrap,
      KernelCommunicator kernels,
      ProxyThread proxy) {
    if (areNeeded(peers, bootstrap.rank())) {
      return new RemoteLinks(peers, routes, bootstrap, kernels, proxy);
    }
    return RemotePeers.none(
        "GPU memory is put only where GPUs load and store it themselves, and over no network",
        "use send and recv with this rank");
  }

  @Override
  public void open(RemoteSpace.Windows windows) {
    if (arrivals != null) {
      return;
    }
    try {
      Links links =
          Links.among(outside, peers, routes, bootstrap.rank(), bootstrap, bootstrap.exchangeEnd());
      RemoteSpace space = new RemoteSpace(links.sends(), links.recvs(), windows);
      RemoteSpace.Arrivals made = kernels.attach(space).orElseThrow();
      proxy.attend(links.proxyHandlers(), made::doWork);
      arrivals = made;
    } catch (NcclException e) {
      bootstrap.tellFailure(e);
      throw e;
    }
  }

  @Override
  public boolean isOpen() {
    return arrivals != null;
  }

  @Override
  public Optional<Obstacle> obstacle() {
    return Optional.empty();
  }

  @Override
  public List<Long> sent() {
    RemoteSpace.Arrivals open = arrivals;
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
          LockSupport.parkNanos(POLL_NANOS);
        }
      }
    }
  }

  private TimeoutException late(int peer, long due) {
    return new TimeoutException(
        ErrorId.OPERATION,
        "rank %d has %d of %d puts and signals that rank %d has sent it by the deadline"
            .formatted(bootstrap.rank(), arrivals.arrived(peer), due, peer),
        "look at the network between the two, or give more time (withInitDeadline or"
            + " NCCL4J_INIT_TIMEOUT)");
  }

  @Override
  public void close() {
    if (arrivals != null) {
      proxy.neglect();
    }
  }
}
