package org.nccl4j.api.bootstrap;

import java.io.IOException;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.nccl4j.api.bootstrap.connection.Connection;
import org.nccl4j.api.bootstrap.connection.ConnectionDialer;
import org.nccl4j.api.bootstrap.connection.Deadline;
import org.nccl4j.api.bootstrap.connection.EventLoop;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageReader;
import org.nccl4j.api.bootstrap.connection.MessageWriter;
import org.nccl4j.api.bootstrap.root.FailureMessage;
import org.nccl4j.api.bootstrap.root.ProcessIdentity;
import org.nccl4j.api.bootstrap.root.RankState;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.tls.PeerCredentials;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.support.DaemonThread;

/**
 * An observer of a job: proves its knowledge of the secret as a rank does, has a root ask its ranks
 * for their states or something else, and never becomes a rank itself.
 *
 * <p>Owner thread: the loop's.
 */
public final class JobObserver implements ConnectionDialer.Outcome, Connection.Owner {
  /** The question for the states of the ranks. */
  private static final byte[] STATE = {};

  private final byte[] question;
  private final List<RankState> ranks = new ArrayList<>();
  private final CompletableFuture<States> answer = new CompletableFuture<>();

  /**
   * A root's answer.
   *
   * @param nRanks of the communicator; 0 while no rank has come
   * @param formed whether all ranks have come
   * @param ranks those that are connected to this root, in any order
   */
  public record States(int nRanks, boolean formed, List<RankState> ranks) {}

  /**
   * The answer of one of several roots, or why there is none.
   *
   * @param states null if there is none
   * @param failure null if there is an answer
   */
  public record Answer(BootstrapId root, States states, NcclException failure) {}

  private JobObserver(byte[] question) {
    this.question = question;
  }

  /** Asks the roots of several ids at the same time for the states of their ranks. */
  public static List<Answer> askAll(
      List<BootstrapId> roots, BootstrapOptions options, Duration limit, Duration further) {
    return askAll(roots, STATE, options, limit, further);
  }

  /**
   * Asks the roots of several ids at the same time.
   *
   * @param question for each rank, at most 64 bytes
   * @param limit for the first answer
   * @param further for the others, from the first answer on
   * @return an answer for each root, in the order of the ids
   */
  public static List<Answer> askAll(
      List<BootstrapId> roots,
      byte[] question,
      BootstrapOptions options,
      Duration limit,
      Duration further) {
    BlockingQueue<Answer> come = new LinkedBlockingQueue<>();
    List<Thread> asking =
        roots.stream()
            .map(
                root ->
                    DaemonThread.of(
                        () -> come.add(answer(root, question, options, limit)),
                        "nccl4j-job-observer"))
            .toList();
    try {
      asking.forEach(Thread::start);
      return answers(roots, come, Deadline.after(limit), further);
    } catch (InterruptedException e) {
      throw interrupted(e);
    } finally {
      asking.forEach(Thread::interrupt);
    }
  }

  private static Answer answer(
      BootstrapId root, byte[] question, BootstrapOptions options, Duration limit) {
    try {
      return new Answer(root, ask(root, question, options, limit), null);
    } catch (NcclException e) {
      return new Answer(root, null, e);
    } catch (RuntimeException | Error e) {
      return new Answer(
          root,
          null,
          new InternalErrorException(
              "the bootstrap root at %s cannot be queried (%s)".formatted(root.where(), e),
              "report this with the stack trace",
              e));
    }
  }

  private static List<Answer> answers(
      List<BootstrapId> roots, BlockingQueue<Answer> come, Deadline limit, Duration further)
      throws InterruptedException {
    Map<BootstrapId, Answer> byRoot = new IdentityHashMap<>();
    Deadline end = limit;
    boolean any = false;
    while (byRoot.size() < roots.size()) {
      Answer next = come.poll(Math.max(1, end.leftNanos()), TimeUnit.NANOSECONDS);
      if (next == null) {
        break;
      }
      byRoot.put(next.root, next);
      if (!any && next.states != null) {
        any = true;
        end = end.atMost(further);
      }
    }
    String late =
        any ? "no answer %s after another root's".formatted(end.text()) : "no answer in time";
    return roots.stream()
        .map(
            root ->
                byRoot.getOrDefault(root, new Answer(root, null, unreachable(root, late, null))))
        .toList();
  }

  /**
   * Asks the root of an id for the states of its ranks.
   *
   * @param limit for all of it; the root itself waits a second for the ranks
   * @throws SystemErrorException if no root can be reached or it gives no answer
   */
  public static States ask(BootstrapId id, BootstrapOptions options, Duration limit) {
    return ask(id, STATE, options, limit);
  }

  private static States ask(
      BootstrapId id, byte[] question, BootstrapOptions options, Duration limit) {
    Deadline deadline = Deadline.after(limit);
    JobObserver observer = new JobObserver(question);
    EventLoop loop = EventLoop.acquire();
    try {
      ConnectionDialer dialer =
          new ConnectionDialer(
              loop,
              HostResolver.resolve(id.addresses(), deadline),
              Handshake.Service.ROOT,
              PeerCredentials.of(id.secret(), options.tls()),
              1,
              observer);
      loop.execute(() -> dialer.start(limit));
      try {
        return observer.answer.get(Math.max(1, deadline.leftNanos()), TimeUnit.NANOSECONDS);
      } finally {
        observer.answer.cancel(false);
        loop.execute(dialer::cancel);
      }
    } catch (InterruptedException e) {
      throw interrupted(e);
    } catch (TimeoutException e) {
      throw unreachable(id, "no answer within " + deadline.text(), e);
    } catch (ExecutionException e) {
      if (e.getCause() instanceof NcclException refusal) {
        throw refusal.again();
      }
      throw unreachable(id, e.getCause().getMessage(), e);
    } finally {
      loop.release();
    }
  }

  private static InvalidUsageException interrupted(InterruptedException cause) {
    Thread.currentThread().interrupt();
    return new InvalidUsageException(
        ErrorId.INTERRUPTED,
        "the thread was interrupted while it asked a job for its state",
        "do not interrupt a thread that asks",
        cause);
  }

  private static SystemErrorException unreachable(BootstrapId id, String why, Exception cause) {
    return new SystemErrorException(
        ErrorId.UNREACHABLE,
        "the bootstrap root of the job at %s cannot be queried: %s".formatted(id.where(), why),
        "check that the job still runs; a job answers only if it was started with"
            + " NCCL4J_JOB_STATE=1 where its unique id is created (with NCCL_COMM_ID: on rank 0);"
            + " pass the id, NCCL4J_COMM_SECRET and NCCL4J_TLS_* of its ranks; without the setting,"
            + " run nccl diagnose on each host",
        cause);
  }

  @Override
  public void reached(Connection reached) {
    if (answer.isDone()) {
      reached.close();
      return;
    }
    reached.handTo(this, RankState.MAX_MESSAGE_BYTES);
    reached.send(
        new MessageWriter(FrameType.OBSERVE)
            .text(ProcessIdentity.ofThisProcess().version(), 256)
            .raw(ByteBuffer.wrap(question))
            .done());
    answer.whenComplete((states, failure) -> reached.close());
  }

  @Override
  public void failed(String reasons) {
    answer.completeExceptionally(new IOException(reasons));
  }

  @Override
  public void received(Connection from, FrameType type, MessageReader body)
      throws ProtocolException {
    switch (type) {
      case STATE -> ranks.add(RankState.decode(body));
      case STATES_END ->
          answer.complete(new States(body.number(), body.number() != 0, List.copyOf(ranks)));
      case FAILURE -> answer.completeExceptionally(FailureMessage.decode(body).toException());
      default -> throw new ProtocolException("the root sent " + type);
    }
  }

  @Override
  public void closed(Connection ended, IOException reason) {
    answer.completeExceptionally(new IOException("the root closed the connection"));
  }
}
