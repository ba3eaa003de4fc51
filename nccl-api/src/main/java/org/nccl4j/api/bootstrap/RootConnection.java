package org.nccl4j.api.bootstrap;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import org.nccl4j.api.bootstrap.connection.Connection;
import org.nccl4j.api.bootstrap.connection.ConnectionDialer;
import org.nccl4j.api.bootstrap.connection.Deadline;
import org.nccl4j.api.bootstrap.connection.EventLoop;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageReader;
import org.nccl4j.api.bootstrap.connection.MessageWriter;
import org.nccl4j.api.bootstrap.root.FailureMessage;
import org.nccl4j.api.bootstrap.root.JoinMessage;
import org.nccl4j.api.bootstrap.root.JoinReply;
import org.nccl4j.api.bootstrap.root.ProcessIdentity;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.tls.PeerCredentials;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.TimeoutException;

/**
 * A rank's connection to the root: the rank sends its identity and receives its neighbours;
 * afterwards the connection carries failures in both directions. State is guarded by the rank's
 * monitor.
 */
final class RootConnection implements ConnectionDialer.Outcome, Connection.Owner {
  private static final int MAX_MESSAGE_BYTES = 64 << 10;
  private static final int ROUNDS = 4;
  private static final Duration GOODBYE_LIMIT = Duration.ofSeconds(1);
  private static final Duration ANSWER_LIMIT = Duration.ofSeconds(1);

  private final EventLoop loop;
  private final RankMonitor monitor;
  private final BootstrapId id;
  private final PeerCredentials trust;
  private final ProcessIdentity self;
  private final int rank;
  private final Duration silence;
  private final FailureBroadcast failures;
  private final NoticeBroadcast notices;
  private Connection connection;
  private String unreachable;

  /** Time at which the rank began to connect; owned by its thread. */
  private long beganNanos;

  private ProcessIdentity root;
  private JoinReply welcome;
  private boolean rootMayLeave;

  private volatile UnaryOperator<byte[]> answers = question -> new byte[0];

  /** Owned by the loop's thread. */
  private HeartbeatSender pulse;

  private boolean over;

  RootConnection(
      EventLoop loop,
      RankMonitor monitor,
      BootstrapId id,
      PeerCredentials trust,
      ProcessIdentity self,
      int rank,
      Duration silence,
      FailureBroadcast failures,
      NoticeBroadcast notices) {
    this.silence = silence;
    this.failures = failures;
    this.notices = notices;
    this.trust = trust;
    this.loop = loop;
    this.monitor = monitor;
    this.id = id;
    this.self = self;
    this.rank = rank;
  }

  /** Connects to the root; returns this side's address, by which other ranks may reach it too. */
  InetAddress connect(List<InetSocketAddress> addresses, Deadline deadline) {
    beganNanos = System.nanoTime();
    int rounds = id.startedByFirstRank() ? Integer.MAX_VALUE : ROUNDS;
    ConnectionDialer dialer =
        new ConnectionDialer(loop, addresses, Handshake.Service.ROOT, trust, rounds, this);
    loop.execute(() -> dialer.start(Duration.ofNanos(Math.max(1, deadline.leftNanos()))));
    try {
      await(
          () -> (connection != null || unreachable != null) ? true : null,
          deadline,
          () -> rootUnreachable("no answer", deadline));
    } catch (NcclException e) {
      loop.execute(dialer::cancel);
      throw e;
    }
    Connection reached = monitor.read(() -> connection);
    InetSocketAddress local = reached == null ? null : reached.localAddress();
    if (local == null) {
      String reasons = monitor.read(() -> unreachable);
      throw rootUnreachable(reasons == null ? "the connection broke" : reasons, deadline);
    }
    return local.getAddress();
  }

  /**
   * Waits until the deadline, and then a moment for the root's answer with the reason. The moment
   * begins when this thread runs: a machine that stalls at the deadline must not use it up.
   */
  private <T> T await(Supplier<T> ready, Deadline deadline, Supplier<NcclException> late) {
    T result = monitor.awaitOrNull(ready, deadline);
    return result != null ? result : monitor.await(ready, Deadline.after(ANSWER_LIMIT), late);
  }

  /** Sets what is answered to observers. */
  void onAsked(UnaryOperator<byte[]> listener) {
    answers = listener;
  }

  /** Introduces this rank. */
  void introduce(JoinMessage hello) {
    monitor.read(() -> connection).send(hello.encode());
  }

  /** Waits until all who come to this root have come. */
  JoinReply awaitWelcome(Deadline deadline) {
    return await(
        () -> welcome,
        deadline,
        () ->
            new TimeoutException(
                ErrorId.RANKS_MISSING,
                "rank %d waited %s for the bootstrap root at %s, which did not answer"
                    .formatted(rank, deadline.text(), id.where()),
                ("check whether the root's process (%s) hangs, or allow more time with"
                        + " NCCL4J_INIT_TIMEOUT")
                    .formatted(rootText())));
  }

  /** True if failures can still be reported through the root. */
  boolean alive() {
    return monitor.read(() -> connection != null && !over);
  }

  /** True if it is alive and its process will not end before those of all ranks. */
  boolean stays() {
    return monitor.read(() -> connection != null && !over && !rootMayLeave);
  }

  /** Tells the root of this rank's failure. */
  void tell(FailureMessage failure) {
    send(failure.encode());
  }

  /** Sends the root a message, if it has been reached. */
  void send(ByteBuffer message) {
    Connection to = monitor.read(() -> connection);
    if (to != null) {
      to.send(message);
    }
  }

  /**
   * Says goodbye and closes. Where the root is in this very process, waits a moment until it has
   * told the others that it may leave too, since the process might now end.
   */
  void leave() {
    Connection to = monitor.read(() -> connection);
    if (to == null) {
      return;
    }
    loop.execute(
        () -> {
          if (pulse != null) {
            pulse.stop();
          }
        });
    ByteBuffer goodbye = new MessageWriter(FrameType.GOODBYE).done();
    ProcessIdentity server = monitor.read(() -> root);
    boolean rootIsHere = server != null && server.token().equals(self.token());
    if (!rootIsHere || loop.isCurrent()) {
      to.finish(goodbye);
      return;
    }
    to.send(goodbye);
    Deadline limit = Deadline.after(GOODBYE_LIMIT);
    synchronized (monitor) {
      boolean interrupted = false;
      while (!over && !limit.passed()) {
        try {
          monitor.wait(limit.leftNanos() / 1_000_000 + 1);
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
    to.close();
  }

  @Override
  public void reached(Connection reached) {
    reached.handTo(this, MAX_MESSAGE_BYTES);
    monitor.change(
        () -> {
          if (monitor.isClosed()) {
            reached.close();
          } else {
            connection = reached;
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
      case ROOT -> {
        ProcessIdentity who = JoinMessage.decodeIdentity(body);
        monitor.change(() -> root = who);
      }
      case HEARTBEAT -> pulse.heard();
      case WELCOME -> {
        JoinReply all = JoinReply.decode(body);
        begin(from);
        monitor.change(() -> welcome = all);
      }
      case FAILURE -> failures.heard(FailureMessage.decode(body), this);
      case NOTICE -> notices.heard(body, this);
      case STATE_ASKED -> {
        MessageWriter answer = new MessageWriter(FrameType.STATE).number(body.longNumber());
        ByteBuffer question = body.rest();
        byte[] asked = new byte[question.remaining()];
        question.get(asked);
        from.send(answer.bytes(answers.apply(asked)).done());
      }
      case ROOT_LEAVES -> monitor.change(() -> rootMayLeave = true);
      default -> throw new ProtocolException("the root sent " + type);
    }
  }

  private void begin(Connection to) {
    pulse =
        new HeartbeatSender(
            loop,
            silence,
            () -> to.send(new MessageWriter(FrameType.HEARTBEAT).number(silence.toMillis()).done()),
            this::rootIsSilent);
    pulse.start();
  }

  private void rootIsSilent(Duration length) {
    if (monitor.read(() -> rootMayLeave)) {
      // No rank lives there. The root may go on later: it must not take the end for a failure.
      monitor.change(() -> over = true);
      monitor.read(() -> connection).finish(new MessageWriter(FrameType.GOODBYE).done());
      return;
    }
    failures.heard(
        new FailureMessage(
            ErrorId.RANK_SILENT,
            "the process of the bootstrap root (%s) has sent no heartbeat for %s"
                .formatted(rootText(), Deadline.seconds(length)),
            "check whether it is stopped, or its host or network is down;"
                + " NCCL4J_HEARTBEAT_TIMEOUT, which is %s, allows a longer silence"
                    .formatted(Deadline.after(silence).text()),
            ""),
        this);
  }

  @Override
  public void closed(Connection was, IOException reason) {
    if (pulse != null) {
      pulse.stop();
    }
    monitor.change(() -> over = true);
    if (monitor.read(() -> root == null)) {
      failures.heard(closedBeforeAnswering(), this);
    } else if (!monitor.read(() -> rootMayLeave)) {
      String broken = reason instanceof ProtocolException ? " (" + reason.getMessage() + ")" : "";
      failures.heard(
          new FailureMessage(
              ErrorId.RANK_DIED,
              "the process of the bootstrap root ("
                  + rootText()
                  + ") ended without closing"
                  + broken,
              "look at that process's output for the reason, such as an exception, a kill, or"
                  + " lack of memory",
              ""),
          this);
    }
  }

  /** A root that has all its ranks closes its port, also to ranks that have not joined yet. */
  private FailureMessage closedBeforeAnswering() {
    return new FailureMessage(
        ErrorId.UNREACHABLE,
        "the bootstrap root at %s closed the connection before it answered".formatted(id.where()),
        id.startedByFirstRank()
            ? "if another program runs with this NCCL_COMM_ID, name a port that no other has; else"
                + " look at rank 0's output for the reason of its end"
            : "use each unique id for one communicator; if this one is used once, look for the"
                + " reason in the output of the process that created it",
        "");
  }

  private String rootText() {
    return monitor.read(
        () -> {
          String where = root == null ? "at " + id.where() : root.text();
          return welcome == null || welcome.rootRanks().isEmpty()
              ? where
              : welcome.rootRanks() + ", " + where;
        });
  }

  private NcclException rootUnreachable(String reasons, Deadline deadline) {
    String network =
        "let TCP through the firewall to that port (NCCL4J_BOOTSTRAP_PORTS fixes it), or"
            + " choose the network with NCCL_SOCKET_IFNAME or NCCL_COMM_ID=host:port";
    String otherPort = "if another program has that port, name a free one in NCCL_COMM_ID; ";
    String remedy;
    if (reasons.contains("TLS") || reasons.contains("nccl4j's protocol")) {
      remedy =
          "set NCCL4J_TLS_CERT and NCCL4J_TLS_CA on all ranks or on none; "
              + (id.startedByFirstRank() ? otherPort : "")
              + network;
    } else if (reasons.contains("secret")) {
      remedy =
          id.startedByFirstRank()
              ? "set NCCL_COMM_ID, letter by letter, and NCCL4J_COMM_SECRET to the same values on"
                  + " all ranks; or name a port that no other job has"
              : "pass the same unique id to all ranks, and use it for one communicator";
    } else if (id.startedByFirstRank()) {
      remedy =
          "start rank 0, with the same NCCL_COMM_ID, on the host that it names; "
              + otherPort
              + network;
    } else if (reasons.contains("ECONNREFUSED")) {
      remedy =
          "keep the process that created the unique id alive, and use each id for one"
              + " communicator and within its time; "
              + network;
    } else {
      remedy = network;
    }
    return new SystemErrorException(
        ErrorId.UNREACHABLE,
        "rank %d (%s) cannot reach the bootstrap root at %s, after %s of %s: %s"
            .formatted(
                rank,
                self.text(),
                id.where(),
                Deadline.seconds(Duration.ofNanos(System.nanoTime() - beganNanos)),
                deadline.text(),
                reasons),
        remedy);
  }
}
