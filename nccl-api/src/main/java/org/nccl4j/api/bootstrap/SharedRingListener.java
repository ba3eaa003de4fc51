package org.nccl4j.api.bootstrap;

import java.net.InetAddress;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import org.nccl4j.api.bootstrap.connection.Connection;
import org.nccl4j.api.bootstrap.connection.ConnectionListener;
import org.nccl4j.api.bootstrap.connection.EventLoop;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageReader;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.ListeningSocket;
import org.nccl4j.api.wire.PortRange;
import org.nccl4j.api.wire.tls.PeerCredentials;

/**
 * The listening socket that a communicator's ranks in this process share, so that thousands of
 * ranks do not need a descriptor each. A connecting rank names the rank that it wants, in the
 * handshake and in its first message. The last rank that leaves closes it. Any thread.
 */
final class SharedRingListener implements ConnectionListener.Acceptor {
  private static final List<SharedRingListener> OPEN = new ArrayList<>();

  private final PeerCredentials trust;
  private final InetAddress host;
  private final PortRange ports;
  private final EventLoop loop;
  private final ConnectionListener listener;
  private final int number;
  private final Map<Integer, ConnectionListener.Acceptor> ranks = new ConcurrentHashMap<>();

  private SharedRingListener(
      EventLoop loop, PeerCredentials trust, InetAddress host, PortRange ports) {
    this.trust = trust;
    this.host = host;
    this.ports = ports;
    this.loop = loop;
    ServerSocketChannel socket = ListeningSocket.open("the bootstrap", host, ports);
    number = ListeningSocket.port(socket);
    listener =
        new ConnectionListener(
            loop, socket, Handshake.Service.RING, trust, ConnectionListener.PATIENCE, this);
  }

  /** Begins to accept for a rank; the first message of a connection names the rank. */
  static SharedRingListener join(
      EventLoop loop,
      PeerCredentials trust,
      InetAddress host,
      PortRange ports,
      int rank,
      ConnectionListener.Acceptor acceptor) {
    synchronized (OPEN) {
      for (SharedRingListener each : OPEN) {
        if (each.serves(trust, host, ports) && each.ranks.putIfAbsent(rank, acceptor) == null) {
          return each;
        }
      }
      SharedRingListener made = new SharedRingListener(loop, trust, host, ports);
      made.ranks.put(rank, acceptor);
      OPEN.add(made);
      loop.execute(made.listener::start);
      return made;
    }
  }

  private boolean serves(PeerCredentials otherTrust, InetAddress otherHost, PortRange otherPorts) {
    return trust.isAs(otherTrust) && Objects.equals(host, otherHost) && ports.equals(otherPorts);
  }

  int number() {
    return number;
  }

  /** The rank accepts no more. */
  void leave(int rank) {
    synchronized (OPEN) {
      ranks.remove(rank);
      if (ranks.isEmpty() && OPEN.remove(this)) {
        loop.execute(listener::close);
      }
    }
  }

  /** Returns the request of a handshake for a connection to a rank. */
  static byte[] request(int rank) {
    return ByteBuffer.allocate(Integer.BYTES).putInt(rank).array();
  }

  @Override
  public boolean awaits(ByteBuffer request) {
    return ranks.containsKey(request.getInt());
  }

  @Override
  public void accepted(Connection connection, FrameType type, MessageReader first)
      throws ProtocolException {
    ConnectionListener.Acceptor rank = ranks.get(first.number());
    if (rank == null) {
      connection.close();
    } else {
      rank.accepted(connection, type, first);
    }
  }
}
