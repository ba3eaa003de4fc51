package org.nccl4j.api.bootstrap.root;

import java.io.IOException;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.nccl4j.api.bootstrap.connection.Connection;
import org.nccl4j.api.bootstrap.connection.ConnectionListener;
import org.nccl4j.api.bootstrap.connection.Deadline;
import org.nccl4j.api.bootstrap.connection.EventLoop;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageReader;
import org.nccl4j.api.bootstrap.connection.MessageWriter;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.Sockets;
import org.nccl4j.api.wire.tls.PeerCredentials;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.shm.ProcessLimits;

/**
 * The bootstrap root of a communicator, or of a block of its ranks if there are several roots (see
 * {@link RootPartition}). It collects the join messages, sends each rank its place in the ring or
 * an error, and afterwards keeps the connections as the channel for failures: the first one,
 * reported by a rank or detected by a connection that ends without a goodbye, goes to all other
 * ranks.
 *
 * <p>States: forming, then formed or failed, then closed. It closes when all ranks have left or, if
 * forming has failed, when every rank has received the failure or the time for forming is over.
 *
 * <p>Owner thread: the loop's.
 */
public final class RootService implements ConnectionListener.Acceptor, Connection.Owner {
  private static final System.Logger LOG = DebugLog.of("BOOTSTRAP");
  private static final int MAX_MESSAGE_BYTES = 64 << 10;

  /** Time after which the missing ranks are logged; sooner if the deadline is short. */
  private static final Duration SILENT = Duration.ofSeconds(10);

  private static final int PARTS = 6;

  /** Every process may have as many. */
  private static final int FEW_CONNECTIONS = 64;

  /** Time that notices wait for others. */
  private static final Duration TOGETHER = Duration.ofMillis(5);

  private final EventLoop loop;
  private final ConnectionListener listener;
  private final ProcessIdentity self;
  private final MembershipTable formation;
  private final Map<Connection, JoinMessage> members = new LinkedHashMap<>();
  private final HeartbeatMonitor beats;
  private final Set<Integer> told = new HashSet<>();
  private final List<ByteBuffer> notices = new ArrayList<>();
  private int noticesBytes;
  private final StateService states;

  /** True if observers may come until the root closes. */
  private final boolean observable;

  private int nRanks;

  /** Ranks that failed before they introduced themselves. */
  private int failedBefore;

  private EventLoop.Timer timeout;
  private EventLoop.Timer report;
  private FailureMessage failure;
  private boolean formed;
  private boolean formingOver;
  private boolean mayLeave;
  private boolean closed;

  private RootService(
      EventLoop loop,
      ServerSocketChannel socket,
      PeerCredentials trust,
      ProcessIdentity self,
      boolean observable) {
    this.loop = loop;
    this.self = self;
    this.observable = observable;
    states = new StateService(loop, self.version());
    beats = new HeartbeatMonitor(loop, this::silent);
    formation = new MembershipTable(self.version());
    listener =
        new ConnectionListener(
            loop, socket, Handshake.Service.ROOT, trust, ConnectionListener.PATIENCE, this);
  }

  /**
   * Begins to serve.
   *
   * @param socket closed with the root, and if this fails
   * @param patience how long to wait for the first rank; then its deadline counts
   * @param observable whether to listen for observers when all ranks have come
   */
  public static void start(
      ServerSocketChannel socket,
      PeerCredentials trust,
      ProcessIdentity self,
      Duration patience,
      boolean observable) {
    EventLoop loop = null;
    try {
      loop = EventLoop.acquire();
    } finally {
      if (loop == null) {
        Sockets.close(socket);
      }
    }
    loop.execute(new Start(loop, socket, trust, self, patience, observable));
  }

  /**
   * A root's first task, so that all of it is loaded on the loop's thread: its creator has an id.
   */
  private record Start(
      EventLoop loop,
      ServerSocketChannel socket,
      PeerCredentials trust,
      ProcessIdentity self,
      Duration patience,
      boolean observable)
      implements Runnable {
    @Override
    public void run() {
      RootService root = new RootService(loop, socket, trust, self, observable);
      root.listener.start();
      root.timeout = loop.after(patience, root::close);
    }
  }

  @Override
  public void accepted(Connection connection, FrameType type, MessageReader first)
      throws ProtocolException {
    if (type == FrameType.OBSERVE) {
      states.ask(connection, first, members, nRanks, formed);
      return;
    }
    if (formed) {
      refuseLate(connection);
      return;
    }
    if (type == FrameType.FAILURE) {
      failedBefore(connection, FailureMessage.decode(first));
      return;
    }
    if (type != FrameType.HELLO) {
      throw new ProtocolException("its first message is " + type);
    }
    JoinMessage hello = JoinMessage.decode(first, self.version());
    connection.handTo(this, MAX_MESSAGE_BYTES);
    members.put(connection, hello);
    nRanks = Math.max(nRanks, hello.nRanks());
    connection.send(JoinMessage.encode(new MessageWriter(FrameType.ROOT), self).done());
    if (failure != null) {
      formation.hear(hello);
      tell(connection, hello);
      return;
    }
    boolean isFirst = !formation.begun();
    if (isFirst) {
      limitForming(Duration.ofMillis(Math.max(1, hello.deadlineMillis())));
    }
    Optional<FailureMessage> objection = formation.add(hello);
    if (isFirst && objection.isEmpty()) {
      objection = lackOfFiles(hello);
    }
    if (objection.isPresent()) {
      fail(objection.get(), null);
    } else if (formation.complete()) {
      form();
    }
  }

  /** Why this process cannot keep a connection of each rank; else ranks would wait in vain. */
  private static Optional<FailureMessage> lackOfFiles(JoinMessage hello) {
    JoinMessage.Place place = hello.place();
    int expected = new RootPartition(hello.nRanks(), place.nRoots()).expected(place.root());
    if (expected < FEW_CONNECTIONS) {
      return Optional.empty();
    }
    long most = ProcessLimits.soft(ProcessLimits.OPEN_FILES).orElse(Long.MAX_VALUE);
    return expected < most
        ? Optional.empty()
        : Optional.of(
            new FailureMessage(
                ErrorId.OPEN_FILES,
                "the bootstrap root needs connections of %d ranks, and its process may have %d open files"
                    .formatted(expected, most),
                "raise the limit of open files of the process with the root, and of all ranks, to %d"
                        .formatted(2L * expected)
                    + " or more (ulimit -n, or LimitNOFILE of a service), or use several unique ids",
                ""));
  }

  private void refuseLate(Connection connection) {
    connection.handTo(this, MAX_MESSAGE_BYTES);
    connection.finish(
        new FailureMessage(
                ErrorId.UNIQUE_ID,
                "all %d ranks of this unique id's communicator have already joined"
                    .formatted(nRanks),
                "use each unique id, and each NCCL_COMM_ID at a time, for one communicator",
                "")
            .encode());
  }

  /** A rank that knows the secret could not send its identity: the reason is sent to the others. */
  private void failedBefore(Connection connection, FailureMessage said) {
    connection.handTo(this, MAX_MESSAGE_BYTES);
    failedBefore++;
    if (failure == null) {
      fail(said, connection);
    }
  }

  /** The first rank's time counts for all: a little less, so that the answer comes within it. */
  private void limitForming(Duration deadline) {
    Duration margin = deadline.dividedBy(10);
    Duration most = Duration.ofMillis(500);
    Duration part = deadline.dividedBy(PARTS);
    report = loop.after(part.compareTo(SILENT) < 0 ? part : SILENT, this::sayWhoIsAwaited);
    timeout.cancel();
    timeout =
        loop.after(
            deadline.minus(margin.compareTo(most) > 0 ? most : margin),
            () -> formingTooLong(deadline));
  }

  private void sayWhoIsAwaited() {
    if (failure == null) {
      LOG.log(
          System.Logger.Level.WARNING,
          "the bootstrap root still waits for {0}",
          formation.awaited());
    }
  }

  private void formingTooLong(Duration deadline) {
    if (failure == null) {
      fail(formation.late(Deadline.after(deadline).text(), listener.refusals()), null);
    }
    listener.close();
    formingOver = true;
    timeout = loop.after(Duration.ofSeconds(1), this::close);
    closeIfDone();
  }

  private void form() {
    formed = true;
    timeout.cancel();
    report.cancel();
    if (!observable) {
      listener.close();
    }
    List<JoinMessage> ours = members.values().stream().filter(hello -> sameProcess(hello)).toList();
    String rootRanks =
        String.join(", ", ours.stream().map(hello -> "rank " + hello.rank()).toList());
    members.forEach(
        (connection, hello) -> connection.send(formation.welcome(hello, rootRanks).encode()));
    leaveIfAlone();
  }

  @Override
  public void received(Connection connection, FrameType type, MessageReader body)
      throws ProtocolException {
    JoinMessage hello = members.get(connection);
    if (type == FrameType.FAILURE) {
      FailureMessage said = FailureMessage.decode(body);
      if (failure == null) {
        fail(said, connection);
      }
    } else if (type == FrameType.HEARTBEAT) {
      beats.heard(connection, Duration.ofMillis(Math.max(1, body.longNumber())));
      connection.send(new MessageWriter(FrameType.HEARTBEAT).done());
    } else if (type == FrameType.NOTICE) {
      pass(body.rest());
    } else if (type == FrameType.STATE) {
      states.answered(connection, body);
    } else if (type == FrameType.GOODBYE) {
      beats.forget(connection);
      states.left(connection);
      members.remove(connection);
      if (!formed && failure == null) {
        fail(ended(hello, "left while the communicator was being created"), null);
      }
      leaveIfAlone();
      connection.close();
      closeIfDone();
    } else {
      throw new ProtocolException("it sent " + type + " to the root");
    }
  }

  @Override
  public void closed(Connection connection, IOException reason) {
    JoinMessage hello = members.remove(connection);
    beats.forget(connection);
    states.left(connection);
    if (hello != null && failure == null) {
      String how =
          reason instanceof ProtocolException
              ? "broke the bootstrap protocol: " + reason.getMessage()
              : "ended without closing its communicator";
      fail(ended(hello, how), null);
    }
    leaveIfAlone();
    closeIfDone();
  }

  /** A rank's process has been silent for too long. */
  private void silent(Connection connection, Duration length, Duration allowed) {
    JoinMessage hello = members.get(connection);
    if (hello != null && failure == null) {
      fail(
          new FailureMessage(
              ErrorId.RANK_SILENT,
              "%s has sent no heartbeat for %s".formatted(hello.text(), Deadline.seconds(length)),
              "check whether the process is stopped, or its host or network is down;"
                  + " NCCL4J_HEARTBEAT_TIMEOUT, which is %s, allows a longer silence"
                      .formatted(Deadline.after(allowed).text()),
              ""),
          null);
    }
    if (hello != null) {
      // A stopped rank reads the failure later; nobody waits for its goodbye.
      members.remove(connection);
      connection.finish(failure.encode());
      leaveIfAlone();
      loop.execute(this::closeIfDone);
    }
  }

  private static FailureMessage ended(JoinMessage hello, String how) {
    return new FailureMessage(
        ErrorId.RANK_DIED,
        hello.text() + " " + how,
        "look at that process's output for the reason, such as an exception, a kill, or lack of"
            + " memory",
        "");
  }

  /** Sends the first failure to all ranks except the one that reported it. */
  private void fail(FailureMessage first, Connection teller) {
    failure = first;
    members.forEach(
        (connection, hello) -> {
          if (connection == teller) {
            told.add(hello.rank());
          } else {
            tell(connection, hello);
          }
        });
  }

  private void tell(Connection connection, JoinMessage hello) {
    told.add(hello.rank());
    connection.send(failure.encode());
  }

  /** Ranks that close at once tell so at once; the others get that in one message. */
  private void pass(ByteBuffer notice) {
    if (noticesBytes + notice.remaining() > MAX_MESSAGE_BYTES) {
      passAll();
    }
    notices.add(notice);
    noticesBytes += notice.remaining();
    if (mayLeave) {
      passAll();
    } else if (notices.size() == 1) {
      loop.after(TOGETHER, this::passAll);
    }
  }

  /**
   * Passes notices on to all ranks. The rank that sent a notice gets it too, and knows it by its
   * number.
   */
  private void passAll() {
    if (!notices.isEmpty()) {
      MessageWriter all = new MessageWriter(FrameType.NOTICE);
      notices.forEach(all::raw);
      ByteBuffer message = all.done();
      members.keySet().forEach(connection -> connection.send(message.duplicate()));
      notices.clear();
      noticesBytes = 0;
    }
  }

  /** Once no rank lives in this process, its end is no failure of the communicator. */
  private void leaveIfAlone() {
    if (formed && !mayLeave && members.values().stream().noneMatch(this::sameProcess)) {
      mayLeave = true;
      passAll();
      ByteBuffer message = new MessageWriter(FrameType.ROOT_LEAVES).done();
      members.keySet().forEach(connection -> connection.send(message.duplicate()));
    }
  }

  private boolean sameProcess(JoinMessage hello) {
    return hello.who().token().equals(self.token());
  }

  private void closeIfDone() {
    boolean allTold =
        failure != null
            && formation.mostClaimed() > 0
            && told.size() + failedBefore >= formation.mostClaimed();
    if (members.isEmpty() && (formed || formingOver || allTold)) {
      close();
    }
  }

  private void close() {
    if (!closed) {
      closed = true;
      timeout.cancel();
      if (report != null) {
        report.cancel();
      }
      beats.close();
      states.close();
      listener.close();
      Set.copyOf(members.keySet()).forEach(Connection::close);
      members.clear();
      loop.release();
    }
  }
}
