package org.nccl4j.api.init;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.locks.LockSupport;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.kernel.Connection;
import org.nccl4j.device.kernel.ConnectionLayout;

/**
 * Connects this rank with every other: a connector for each direction, with its handle exchanged.
 */
final class Links {
  private static final long POLL_NANOS = 50_000;

  private final int rank;
  private final boolean onHost;
  private final List<Connector> senders = new ArrayList<>();
  private final List<Connector> receivers = new ArrayList<>();

  /** Links whose slots the processor is to reach too, or any. */
  private Links(int rank, boolean onHost) {
    this.rank = rank;
    this.onHost = onHost;
  }

  /**
   * Makes all connections; returns once this rank's are made.
   *
   * @param routes the transport to each rank, by rank; null at this one
   * @param endNanos when to give up
   */
  static Links connect(
      List<PeerInfo> peers,
      List<Routes.NamedTransport> routes,
      int rank,
      Bootstrap bootstrap,
      long endNanos) {
    Links links = new Links(rank, /* onHost= */ false);
    Set<Integer> others = new TreeSet<>();
    for (PeerInfo peer : peers) {
      links.senders.add(null);
      links.receivers.add(null);
      if (peer.rank() != rank) {
        others.add(peer.rank());
      }
    }
    links.connect(others, peers, routes, bootstrap, endNanos);
    return links;
  }

  /**
   * Connects with some of the ranks, once more beside what there is, by connections whose slots the
   * processor reaches too; all ranks take part.
   *
   * @param which ranks that connect with this one likewise
   * @return links to these; none to the others
   */
  static Links among(
      Set<Integer> which,
      List<PeerInfo> peers,
      List<Routes.NamedTransport> routes,
      int rank,
      Bootstrap bootstrap,
      long endNanos) {
    Links links = new Links(rank, /* onHost= */ true);
    links.senders.addAll(Collections.nCopies(peers.size(), null));
    links.receivers.addAll(links.senders);
    links.connect(which, peers, routes, bootstrap, endNanos);
    return links;
  }

  /**
   * Connects some ranks anew, by other transports; all ranks take part. The former connectors are
   * their transports'.
   *
   * @param changed this rank's peers whose route is another now
   */
  void replace(
      Set<Integer> changed,
      List<PeerInfo> peers,
      List<Routes.NamedTransport> routes,
      Bootstrap bootstrap,
      long endNanos) {
    connect(changed, peers, routes, bootstrap, endNanos);
  }

  private void connect(
      Set<Integer> which,
      List<PeerInfo> peers,
      List<Routes.NamedTransport> routes,
      Bootstrap bootstrap,
      long endNanos) {
    for (int peer : which) {
      Transport by = routes.get(peer).transport();
      PeerInfo info = peers.get(peer);
      senders.set(peer, onHost ? by.hostSender(info) : by.sender(info));
      receivers.set(peer, onHost ? by.hostReceiver(info) : by.receiver(info));
    }
    connect(which, bootstrap.allGather(handles(which, routes)), bootstrap, endNanos);
  }

  /** For each rank the handles of the sender to it and of the receiver from it. */
  private byte[] handles(Set<Integer> which, List<Routes.NamedTransport> routes) {
    int most = 2 * (2 + Connector.HANDLE_BYTES);
    ByteBuffer bytes = ByteBuffer.allocate(senders.size() * most);
    for (int peer = 0; peer < senders.size(); peer++) {
      boolean asked = which.contains(peer);
      put(bytes, asked ? senders.get(peer) : null, routes.get(peer));
      put(bytes, asked ? receivers.get(peer) : null, routes.get(peer));
    }
    byte[] used = new byte[bytes.position()];
    bytes.flip().get(used);
    return used;
  }

  private static void put(ByteBuffer bytes, Connector connector, Routes.NamedTransport route) {
    byte[] handle = connector == null ? new byte[0] : connector.handle();
    if (handle.length > Connector.HANDLE_BYTES) {
      throw new InternalErrorException(
          "transport %s gives a handle of %d bytes".formatted(route.name(), handle.length),
          "its author must keep handles within " + Connector.HANDLE_BYTES + " bytes");
    }
    bytes.putShort((short) handle.length).put(handle);
  }

  private void connect(
      Set<Integer> which, List<byte[]> handles, Bootstrap bootstrap, long endNanos) {
    List<Pending> pending = new ArrayList<>();
    for (int peer : which) {
      pending.add(new Pending(senders.get(peer), handle(handles, peer, false), peer));
      pending.add(new Pending(receivers.get(peer), handle(handles, peer, true), peer));
    }
    while (true) {
      pending.removeIf(Pending::isConnected);
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
            "look at rank %d's log, or give more time (withInitDeadline or NCCL4J_INIT_TIMEOUT)"
                .formatted(first.peer));
      }
      LockSupport.parkNanos(POLL_NANOS);
    }
  }

  private static void checkInterrupt() {
    if (Thread.currentThread().isInterrupted()) {
      throw new InvalidUsageException(
          ErrorId.INTERRUPTED,
          "the thread was interrupted while it connected with other ranks",
          "interrupt no thread that makes a communicator");
    }
  }

  private record Pending(Connector connector, byte[] remoteHandle, int peer) {
    boolean isConnected() {
      return connector.connect(remoteHandle);
    }
  }

  /** What a peer's sender to this rank, or receiver from this rank, gave. */
  private byte[] handle(List<byte[]> handles, int peer, boolean sender) {
    try {
      ByteBuffer bytes = ByteBuffer.wrap(handles.get(peer));
      for (int skip = 0; skip < 2 * rank + (sender ? 0 : 1); skip++) {
        int length = bytes.getShort();
        bytes.position(bytes.position() + length);
      }
      byte[] handle = new byte[bytes.getShort()];
      bytes.get(handle);
      return handle;
    } catch (BufferUnderflowException | IllegalArgumentException | NegativeArraySizeException e) {
      throw new InvalidUsageException(
          ErrorId.RANKS_DIFFER,
          "rank %d sent handles that are not understood (%s)".formatted(peer, e),
          "run the same version of nccl4j on all ranks",
          e);
    }
  }

  /** The ranks whose memory kernels of this rank's GPU load and store themselves. */
  List<Integer> loadedAndStored(List<PeerInfo> peers) {
    return peers.stream()
        .filter(peer -> peer.rank() != rank && peer.deviceKind() == Device.Kind.CUDA)
        .map(PeerInfo::rank)
        .filter(peer -> senders.get(peer).proxy().isEmpty())
        .toList();
  }

  /** Connections to each rank; null at this one. */
  List<Connection> sends() {
    return connections(senders);
  }

  /** Connections from each rank; null at this one. */
  List<Connection> recvs() {
    return connections(receivers);
  }

  private static List<Connection> connections(List<Connector> connectors) {
    List<Connection> connections = new ArrayList<>();
    for (Connector connector : connectors) {
      connections.add(connector == null ? null : connector.connection());
    }
    return connections;
  }

  /** Channels that all of this rank's connections have. */
  int channels() {
    return sends().stream()
        .filter(Objects::nonNull)
        .mapToInt(Connection::channels)
        .min()
        .orElse(ConnectionLayout.CHANNELS);
  }

  /** Work for the proxy, if any transport has some. */
  List<ProxyHandler> proxyHandlers() {
    List<ProxyHandler> handlers = new ArrayList<>();
    for (int peer = 0; peer < senders.size(); peer++) {
      if (senders.get(peer) != null) {
        senders.get(peer).proxy().ifPresent(handlers::add);
        receivers.get(peer).proxy().ifPresent(handlers::add);
      }
    }
    return handlers;
  }
}
