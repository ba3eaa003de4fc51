package org.nccl4j.api.bootstrap.connection;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.nio.channels.Channel;
import java.nio.channels.SelectionKey;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.tls.PeerCredentials;
import org.nccl4j.device.DebugLog;

/**
 * A listening socket that passes on only connections which have proved knowledge of the secret and
 * sent a first message in time. All other connections (garbage, silence, a wrong secret) are
 * closed, counted, and logged once; they use at most {@value #MAX_PENDING} descriptors.
 *
 * <p>Owner thread: the loop's.
 */
public final class ConnectionListener implements EventLoop.Handler, Connection.Owner {
  /** Receives the connections. */
  public interface Acceptor {
    /** True if somebody here awaits a request; callers with others receive no proof. */
    default boolean awaits(ByteBuffer request) {
      return true;
    }

    void accepted(Connection connection, FrameType type, MessageReader first)
        throws ProtocolException;
  }

  /** Time that a connection may take to authenticate. */
  public static final Duration PATIENCE = Duration.ofSeconds(5);

  private static final System.Logger LOG = DebugLog.of("BOOTSTRAP");

  /**
   * Factor by which an authenticated connection may take longer: a process of many ranks is slow.
   */
  private static final int PROVED_PATIENCE = 12;

  private static final int MAX_PENDING = 256;
  private static final int ACCEPTS_AT_ONCE = 64;

  /** Enough for the longest failure of a rank that does not join. */
  private static final int FIRST_MESSAGE_BYTES = 20 << 10;

  private static final Duration PAUSE = Duration.ofMillis(50);

  private final EventLoop loop;
  private final ServerSocketChannel channel;
  private final Handshake.Service service;
  private final PeerCredentials trust;
  private final Duration patience;
  private final Acceptor acceptor;
  private final Map<Connection, EventLoop.Timer> pending = new LinkedHashMap<>();
  private final Map<Connection, EventLoop.Timer> proved = new LinkedHashMap<>();
  private SelectionKey key;
  private long refused;
  private boolean warned;
  private boolean toldOfFailure;
  private String lastRefusal = "";

  public ConnectionListener(
      EventLoop loop,
      ServerSocketChannel channel,
      Handshake.Service service,
      PeerCredentials trust,
      Duration patience,
      Acceptor acceptor) {
    this.loop = loop;
    this.channel = channel;
    this.service = service;
    this.trust = trust;
    this.patience = patience;
    this.acceptor = acceptor;
  }

  /** Begins to accept. */
  public void start() {
    try {
      key = loop.register(channel, SelectionKey.OP_ACCEPT, this);
    } catch (IOException e) {
      LOG.log(Level.DEBUG, "the listening socket was closed before it was used", e);
    }
  }

  /** Closes the socket and whatever has not proved itself. */
  public void close() {
    closeSocket(channel);
    loop.wakeup();
    for (Map<Connection, EventLoop.Timer> each : List.of(pending, proved)) {
      each.forEach(
          (connection, timer) -> {
            timer.cancel();
            connection.close();
          });
      each.clear();
    }
  }

  /** Returns the refused connections, for messages; empty if there are none. */
  public String refusals() {
    return switch ((int) Math.min(2, refused)) {
      case 0 -> "";
      case 1 -> "; 1 connection was refused meanwhile, " + lastRefusal;
      default -> "; " + refused + " connections were refused meanwhile, the last " + lastRefusal;
    };
  }

  @Override
  public void ready(SelectionKey selected) {
    for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
      SocketChannel accepted;
      try {
        accepted = channel.accept();
      } catch (IOException e) {
        pauseAfter(e);
        return;
      }
      if (accepted == null) {
        return;
      }
      admit(accepted);
    }
  }

  private void admit(SocketChannel accepted) {
    if (pending.size() >= MAX_PENDING) {
      refuse(
          pending.keySet().iterator().next(), "too many connections that have not authenticated");
    }
    try {
      Connection connection = Connection.accepted(loop, accepted, trust, service, this);
      connection.handTo(this, FIRST_MESSAGE_BYTES);
      pending.put(
          connection,
          loop.after(patience, () -> refuse(connection, "it did not authenticate in time")));
    } catch (IOException e) {
      closeSocket(accepted);
    }
  }

  /** Counts who asks for another than those here: the address may lead to several hosts. */
  @Override
  public boolean awaits(Connection connection, ByteBuffer request) {
    boolean awaited = acceptor.awaits(request);
    if (!awaited) {
      count(connection, "it requests a rank that is not here");
    }
    return awaited;
  }

  /** From here on a flood of strangers cannot push it out. */
  @Override
  public void authenticated(Connection connection) {
    EventLoop.Timer first = pending.remove(connection);
    if (first != null) {
      first.cancel();
    }
    proved.put(
        connection,
        loop.after(
            patience.multipliedBy(PROVED_PATIENCE),
            () -> refuse(connection, "it sent no request in time")));
  }

  @Override
  public void received(Connection connection, FrameType type, MessageReader body)
      throws ProtocolException {
    forget(connection);
    try {
      acceptor.accepted(connection, type, body);
    } catch (ProtocolException e) {
      refuse(connection, e.getMessage());
    }
  }

  /**
   * Counts a connection that ended with the refused ones, without a warning. A rank that waits too
   * long for its first connection tries another address and gives one of the two up.
   */
  @Override
  public void closed(Connection connection, IOException reason) {
    if (reason instanceof ProtocolException) {
      refuse(connection, reason.getMessage());
    } else {
      count(connection, "it went away");
    }
  }

  private void forget(Connection connection) {
    EventLoop.Timer first = pending.remove(connection);
    EventLoop.Timer timer = first == null ? proved.remove(connection) : first;
    if (timer != null) {
      timer.cancel();
    }
  }

  private void count(Connection connection, String why) {
    forget(connection);
    lastRefusal = "from " + connection.peer() + ": " + why;
    connection.close();
    refused++;
  }

  private void refuse(Connection connection, String why) {
    count(connection, why);
    if (!warned) {
      warned = true;
      LOG.log(
          Level.WARNING,
          "refused a connection to the bootstrap port {0} {1}; if a rank of this job sent it, it has"
              + " another NCCL_COMM_ID, NCCL4J_COMM_SECRET or NCCL4J_TLS_CERT; further refusals are"
              + " only counted",
          Integer.toString(channel.socket().getLocalPort()),
          lastRefusal);
    }
  }

  /** Out of descriptors, most likely: gives up those that prove nothing, and tries again soon. */
  private void pauseAfter(IOException failure) {
    if (!channel.isOpen()) {
      return;
    }
    if (!toldOfFailure) {
      toldOfFailure = true;
      LOG.log(
          Level.WARNING,
          "the bootstrap port cannot accept ({0}) and tries again; if it lacks descriptors, raise"
              + " the limit of open files (ulimit -n); further failures are not logged",
          failure.getMessage());
    }
    while (!pending.isEmpty()) {
      refuse(pending.keySet().iterator().next(), failure.getMessage());
    }
    key.interestOps(0);
    loop.after(
        PAUSE,
        () -> {
          if (key.isValid()) {
            key.interestOps(SelectionKey.OP_ACCEPT);
          }
        });
  }

  private static void closeSocket(Channel socket) {
    try {
      socket.close();
    } catch (IOException e) {
      LOG.log(Level.DEBUG, "closing a socket", e);
    }
  }
}
