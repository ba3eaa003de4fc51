package org.nccl4j.api.bootstrap;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import org.nccl4j.api.bootstrap.connection.Connection;
import org.nccl4j.api.bootstrap.connection.ConnectionDialer;
import org.nccl4j.api.bootstrap.connection.ConnectionListener;
import org.nccl4j.api.bootstrap.connection.Deadline;
import org.nccl4j.api.bootstrap.connection.EventLoop;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageReader;
import org.nccl4j.api.bootstrap.connection.MessageWriter;
import org.nccl4j.api.bootstrap.root.FailureMessage;
import org.nccl4j.api.bootstrap.root.JoinReply;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.PortRange;
import org.nccl4j.api.wire.tls.PeerCredentials;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.TimeoutException;

/**
 * A rank's connections to its two neighbours: data comes from the previous rank and goes to the
 * next one; failures go in both directions once the root has ended. State is guarded by the rank's
 * monitor.
 */
final class RingConnection
    implements ConnectionListener.Acceptor, ConnectionDialer.Outcome, Connection.Owner {
  static final int MAX_DATA_BYTES = 1 << 20;
  private static final int MAX_MESSAGE_BYTES = AllGatherBatch.MAX_BYTES + 64;
  private static final int ROUNDS = 20;

  /** Time that the root may take to name the cause when a neighbour's connection ends. */
  private static final Duration CAUSE_LIMIT = Duration.ofSeconds(1);

  /** Time for which pieces may be kept. */
  private static final Duration PATIENCE = Duration.ofMillis(50);

  /** A rank of how many. */
  record Place(int rank, int nRanks) {}

  private final RejoinPoint meetings;
  private final CallPoint calls;
  private final EventLoop loop;
  private final RankMonitor monitor;
  private final FailureBroadcast failures;
  private final NoticeBroadcast notices;
  private final PeerCredentials trust;
  private final int rank;
  private final int nRanks;
  private final int bundle;

  /** Pieces to go on that are not yet sent; used by the exchanging thread alone. */
  private final List<AllGatherBatch> kept = new ArrayList<>();

  private int keptBytes;
  private final Queue<AllGatherBatch> inbox = new ArrayDeque<>();
  private SharedRingListener ports;
  private Connection previous;
  private Connection next;
  private String unreachable;
  private boolean previousLeft;
  private boolean nextLeft;
  private JoinReply neighbours;

  RingConnection(
      EventLoop loop,
      RankMonitor monitor,
      FailureBroadcast failures,
      NoticeBroadcast notices,
      PeerCredentials trust,
      Place place,
      RejoinPoint meetings,
      CallPoint calls) {
    this.loop = loop;
    this.monitor = monitor;
    this.failures = failures;
    this.notices = notices;
    this.trust = trust;
    this.rank = place.rank;
    this.nRanks = place.nRanks;
    this.meetings = meetings;
    this.calls = calls;
    bundle = Math.max(1, (int) Math.sqrt(nRanks));
  }

  /**
   * Begins to wait for the previous rank; returns the port.
   *
   * @param host on which address; null for all
   */
  int listen(InetAddress host, PortRange allowed) {
    ports = SharedRingListener.join(loop, trust, host, allowed, rank, this);
    return ports.number();
  }

  private int nextRank() {
    return Math.floorMod(rank + 1, nRanks);
  }

  /** Closes the ring: connects to the next rank and waits for the previous one. */
  void connect(JoinReply welcome, Deadline deadline) {
    monitor.change(() -> neighbours = welcome);
    ConnectionDialer dialer =
        new ConnectionDialer(loop, welcome.next(), Handshake.Service.RING, trust, ROUNDS, this)
            .naming(SharedRingListener.request(nextRank()));
    loop.execute(() -> dialer.start(Duration.ofNanos(Math.max(1, deadline.leftNanos()))));
    try {
      boolean reached =
          monitor.await(
              () -> next != null ? Boolean.TRUE : unreachable != null ? Boolean.FALSE : null,
              deadline,
              () -> nextUnreachable("no answer (ETIMEDOUT)"));
      if (!reached) {
        throw nextUnreachable(monitor.read(() -> unreachable));
      }
    } catch (NcclException e) {
      loop.execute(dialer::cancel);
      throw e;
    }
    monitor.await(() -> previous, deadline, () -> previousMissing(deadline));
  }

  /**
   * Passes pieces on to the next rank, at once or with those that come after. They go in bundles of
   * about the square root of the ranks' number, which saves most of the messages and no step of the
   * way: each ends with the piece of a rank that the bundle's size divides, which that rank sends
   * at once.
   */
  void pass(AllGatherBatch pieces) {
    if (keptBytes + pieces.bytes() > AllGatherBatch.MAX_BYTES) {
      flush();
    }
    kept.add(pieces);
    keptBytes += pieces.bytes();
    if (pieces.lastOrigin(nRanks) % bundle == 0) {
      flush();
    }
  }

  /** Passes on what has been kept. */
  void flush() {
    if (!kept.isEmpty()) {
      next.send(AllGatherBatch.encode(kept));
      kept.clear();
      keptBytes = 0;
    }
  }

  /**
   * Waits for the next pieces from the previous rank. Where that takes long, sends on what is kept,
   * so that each rank gets as far as it can and the one that is missing can be named.
   */
  AllGatherBatch receive(int expectedOrigin, Deadline deadline) {
    while (true) {
      AllGatherBatch piece =
          monitor.awaitOrNull(
              this::nextPiece, kept.isEmpty() ? deadline : deadline.atMost(PATIENCE));
      if (piece != null) {
        return piece;
      }
      flush();
      if (deadline.passed()) {
        throw missing(expectedOrigin, deadline);
      }
    }
  }

  private AllGatherBatch nextPiece() {
    if (inbox.isEmpty() && previousLeft) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          neighbours.previousText()
              + " closed its communicator while other ranks still exchange data with it",
          "close a communicator only when all its ranks are done with it");
    }
    return inbox.poll();
  }

  private TimeoutException missing(int expectedOrigin, Deadline deadline) {
    return new TimeoutException(
        ErrorId.RANKS_MISSING,
        "rank %d has not joined an exchange for which rank %d has waited %s"
            .formatted(expectedOrigin, rank, deadline.text()),
        "look at what that rank is doing (jstack), or allow more time with NCCL4J_INIT_TIMEOUT");
  }

  /**
   * Tells both neighbours of a failure; they pass it on.
   *
   * @param source the connection that it came by, which is left out
   */
  void tell(FailureMessage failure, Object source) {
    send(failure.encode(), source);
  }

  /** Sends a message to both neighbours, but for the one that it came from. */
  void send(ByteBuffer message, Object source) {
    for (Connection each : monitor.read(() -> new Connection[] {previous, next})) {
      if (each != null && each != source && each.isOpen()) {
        each.send(message.duplicate());
      }
    }
  }

  /**
   * Says goodbye to both neighbours and closes.
   *
   * @param reason the failure that makes it leave, or null; said first, so that no neighbour takes
   *     the leaving for the cause
   */
  void leave(FailureMessage reason) {
    monitor.change(
        () -> {
          for (Connection each : new Connection[] {previous, next}) {
            if (each != null) {
              if (reason != null) {
                each.send(reason.encode());
              }
              each.finish(new MessageWriter(FrameType.GOODBYE).done());
            }
          }
        });
    if (ports != null) {
      ports.leave(rank);
      loop.execute(meetings::close);
      loop.execute(calls::close);
    }
  }

  @Override
  public void accepted(Connection connection, FrameType type, MessageReader first)
      throws ProtocolException {
    if (type == FrameType.MEET) {
      connection.handTo(this, 0);
      meetings.asked(connection, first);
      return;
    }
    if (type == FrameType.CALL) {
      connection.handTo(this, 0);
      calls.called(connection, first);
      return;
    }
    int from = first.number();
    if (type != FrameType.RING_HELLO || from != Math.floorMod(rank - 1, nRanks)) {
      throw new ProtocolException("it is not the previous rank");
    }
    connection.handTo(this, MAX_MESSAGE_BYTES);
    monitor.change(
        () -> {
          if (monitor.isClosed() || previous != null) {
            connection.close();
          } else {
            previous = connection;
          }
        });
  }

  @Override
  public void reached(Connection connection) {
    connection.handTo(this, MAX_MESSAGE_BYTES);
    connection.send(new MessageWriter(FrameType.RING_HELLO).number(nextRank()).number(rank).done());
    monitor.change(
        () -> {
          if (monitor.isClosed()) {
            connection.close();
          } else {
            next = connection;
          }
        });
  }

  @Override
  public void failed(String reasons) {
    monitor.change(() -> unreachable = reasons);
  }

  @Override
  public void received(Connection from, FrameType type, MessageReader body)
      throws ProtocolException {
    switch (type) {
      case DATA -> {
        AllGatherBatch pieces = AllGatherBatch.decode(body);
        monitor.change(() -> inbox.add(pieces));
      }
      case FAILURE -> failures.heard(FailureMessage.decode(body), from);
      case NOTICE -> notices.heard(body, from);
      case GOODBYE -> monitor.change(() -> left(from));
      default -> throw new ProtocolException("a neighbour sent " + type);
    }
  }

  @Override
  public void closed(Connection connection, IOException reason) {
    if (monitor.read(() -> connection != previous && connection != next)) {
      meetings.gone(connection);
      calls.gone(connection);
      return;
    }
    boolean wasPrevious = monitor.read(() -> connection == previous);
    if (monitor.read(() -> wasPrevious ? previousLeft : nextLeft) || monitor.isClosed()) {
      return;
    }
    if (failures.rootsAlive()) {
      loop.after(CAUSE_LIMIT, () -> broken(connection, wasPrevious, reason));
    } else {
      broken(connection, wasPrevious, reason);
    }
  }

  /** A neighbour's connection ended without a goodbye, and no reason was reported. */
  private void broken(Connection connection, boolean wasPrevious, IOException reason) {
    String who =
        monitor.read(
            () ->
                neighbours == null
                    ? "rank " + Math.floorMod(rank - 1, nRanks)
                    : wasPrevious ? neighbours.previousText() : neighbours.nextText());
    String why =
        reason instanceof ProtocolException
            ? " broke the bootstrap protocol: " + reason.getMessage()
            : " ended without closing its communicator, or its connection to rank "
                + rank
                + " broke";
    failures.heard(
        new FailureMessage(
            ErrorId.RANK_DIED,
            who + why,
            "look at that process's output for the reason, and at the network between the two",
            ""),
        connection);
  }

  private void left(Connection who) {
    if (who == previous) {
      previousLeft = true;
    }
    if (who == next) {
      nextLeft = true;
    }
  }

  private NcclException nextUnreachable(String reasons) {
    return new SystemErrorException(
        ErrorId.UNREACHABLE,
        "rank %d cannot connect to %s: %s".formatted(rank, neighbours.nextText(), reasons),
        "let TCP through the firewall between these hosts (NCCL4J_BOOTSTRAP_PORTS fixes the ports),"
            + " or choose the network with NCCL_SOCKET_IFNAME");
  }

  private NcclException previousMissing(Deadline deadline) {
    return new TimeoutException(
        ErrorId.NOT_CONNECTED,
        "%s did not connect to rank %d within %s"
            .formatted(neighbours.previousText(), rank, deadline.text()),
        "let TCP through the firewall between these hosts (NCCL4J_BOOTSTRAP_PORTS fixes the ports),"
            + " choose the network with NCCL_SOCKET_IFNAME, or allow more time with"
            + " NCCL4J_INIT_TIMEOUT");
  }
}
