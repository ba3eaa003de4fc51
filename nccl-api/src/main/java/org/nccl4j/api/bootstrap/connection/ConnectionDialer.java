package org.nccl4j.api.bootstrap.connection;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ProtocolException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.Sockets;
import org.nccl4j.api.wire.tls.PeerCredentials;
import org.nccl4j.device.DebugLog;

/**
 * Connects to one of several addresses of the same listener: the best first, the next when that has
 * failed or has taken a while, until one has proved that it knows the secret; the others are then
 * closed. Rounds are repeated until the deadline, with longer pauses: the listener may be
 * overloaded, or a network down for a while. If every address refuses, a given number of rounds is
 * the limit; if a process listens there and refuses the secret or TLS, {@value #REFUSALS} rounds.
 *
 * <p>Owner thread: the loop's.
 */
public final class ConnectionDialer implements Connection.Owner {
  /** Receives the outcome, once. */
  public interface Outcome {
    void reached(Connection connection);

    /** No address works; the reasons are for messages. */
    void failed(String reasons);
  }

  private static final System.Logger LOG = DebugLog.of("BOOTSTRAP");

  /** Reasons for which an interface is to blame, not the process. */
  private static final List<String> NOWHERE = List.of("EHOSTUNREACH", "ENETUNREACH", "ETIMEDOUT");

  private static final Set<InetAddress> REJECTED = ConcurrentHashMap.newKeySet();

  /** More than one, since a listener with many connections closes the oldest. */
  private static final int REFUSALS = 8;

  private static final Duration STAGGER = Duration.ofMillis(250);
  private static final Duration FIRST_PAUSE = Duration.ofMillis(100);
  private static final Duration LONGEST_PAUSE = Duration.ofSeconds(1);

  private final EventLoop loop;
  private final List<InetSocketAddress> addresses;
  private final Handshake.Service service;
  private final PeerCredentials trust;
  private final Outcome outcome;
  private final Map<Connection, InetSocketAddress> attempts = new HashMap<>();
  private final Map<InetSocketAddress, String> reasons = new LinkedHashMap<>();
  private EventLoop.Timer timeout;
  private int roundsLeft;
  private int refusalsLeft = REFUSALS;
  private Duration pause = FIRST_PAUSE;

  /** True if some address of this round may do another time. */
  private boolean hopeful;

  /** True if some address of this round has refused the secret or TLS. */
  private boolean refused;

  private byte[] request = new byte[0];
  private int next;
  private boolean over;

  public ConnectionDialer(
      EventLoop loop,
      List<InetSocketAddress> addresses,
      Handshake.Service service,
      PeerCredentials trust,
      int rounds,
      Outcome outcome) {
    this.loop = loop;
    this.addresses = addresses;
    this.service = service;
    this.trust = trust;
    this.roundsLeft = rounds;
    this.outcome = outcome;
  }

  /** Names what it wants from the listener, before it begins. */
  public ConnectionDialer naming(byte[] wanted) {
    request = wanted;
    return this;
  }

  /** Begins; an outcome comes within the time given. */
  public void start(Duration limit) {
    timeout = loop.after(limit, this::tooLate);
    round();
  }

  /** Ends it without an outcome. */
  public void cancel() {
    over = true;
    timeout.cancel();
    Set<Connection> open = Set.copyOf(attempts.keySet());
    attempts.clear();
    open.forEach(Connection::close);
  }

  private void round() {
    if (!over) {
      next = 0;
      if (!hopeful) {
        roundsLeft--;
      }
      hopeful = false;
      refused = false;
      tryNext();
    }
  }

  private void tooLate() {
    if (!over) {
      cancel();
      outcome.failed(reasons());
    }
  }

  /** Why it has not been reached so far, for messages. */
  private String reasons() {
    List<String> sentences = new ArrayList<>();
    for (InetSocketAddress address : addresses) {
      sentences.add(
          Sockets.text(address) + ": " + reasons.getOrDefault(address, "no answer (ETIMEDOUT)"));
    }
    return String.join("; ", sentences);
  }

  private void tryNext() {
    if (over || next == addresses.size()) {
      return;
    }
    InetSocketAddress address = addresses.get(next++);
    if (next < addresses.size()) {
      int mine = next;
      loop.after(
          STAGGER,
          () -> {
            if (next == mine) {
              tryNext();
            }
          });
    }
    try {
      Connection attempt = Connection.dial(loop, address, trust, service, request, this);
      attempts.put(attempt, address);
    } catch (IOException e) {
      failed(address, Sockets.reason(e));
    }
  }

  @Override
  public void authenticated(Connection connection) {
    if (!over) {
      InetSocketAddress used = attempts.remove(connection);
      cancel();
      reasons.forEach((address, reason) -> warn(address, reason, used));
      outcome.reached(connection);
    }
  }

  @Override
  public void received(Connection connection, FrameType type, MessageReader body)
      throws ProtocolException {
    throw new ProtocolException("it sent data before the handshake");
  }

  @Override
  public void closed(Connection connection, IOException reason) {
    InetSocketAddress address = attempts.remove(connection);
    if (!over && address != null) {
      hopeful |= connection.crowdedOut() && !(reason instanceof ProtocolException);
      boolean turnedAway = connection.proving() && !(reason instanceof ProtocolException);
      refused |= turnedAway || reason instanceof ProtocolException;
      failed(address, turnedAway ? turnedAway() : Sockets.reason(reason));
    }
  }

  private String turnedAway() {
    return service == Handshake.Service.ROOT
        ? "it does not accept this id's secret, and may be another communicator's root"
        : "the rank is not there: it has left, or another process has this address";
  }

  /** Logs, once for each, an address that leads nowhere where another address does. */
  private static void warn(InetSocketAddress address, String reason, InetSocketAddress used) {
    boolean nowhere = NOWHERE.stream().anyMatch(reason::contains);
    if (nowhere && REJECTED.add(address.getAddress())) {
      LOG.log(
          Level.WARNING,
          "{0} cannot be reached ({1}), so the bootstrap uses {2}; NCCL_SOCKET_IFNAME leaves out"
              + " interfaces that do not lead to all hosts",
          Sockets.text(address),
          reason,
          Sockets.text(used));
    }
  }

  private void failed(InetSocketAddress address, String reason) {
    reasons.put(address, reason);
    hopeful |= NOWHERE.stream().anyMatch(reason::contains);
    if (next < addresses.size()) {
      tryNext();
    } else if (attempts.isEmpty()) {
      refusalsLeft -= refused && !hopeful ? 1 : 0;
      if (hopeful || roundsLeft > 0 && refusalsLeft > 0) {
        loop.after(pause, this::round);
        if (hopeful && pause.compareTo(LONGEST_PAUSE) < 0) {
          pause = pause.multipliedBy(2);
        }
      } else {
        tooLate();
      }
    }
  }
}
