package org.nccl4j.api.bootstrap;

import java.io.IOException;
import java.net.ProtocolException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.nccl4j.api.bootstrap.connection.Connection;
import org.nccl4j.api.bootstrap.connection.ConnectionDialer;
import org.nccl4j.api.bootstrap.connection.Deadline;
import org.nccl4j.api.bootstrap.connection.EventLoop;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageReader;
import org.nccl4j.api.bootstrap.connection.MessageWriter;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.tls.PeerCredentials;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.TimeoutException;

/** Asks another rank's {@link RejoinPoint} for the way to a new root. */
final class RejoinCall implements ConnectionDialer.Outcome, Connection.Owner {
  private static final int ROUNDS = 20;
  private static final int MAX_MESSAGE_BYTES = 4096;

  private final int rank;
  private final String key;
  private final CompletableFuture<byte[]> answer = new CompletableFuture<>();

  private RejoinCall(int rank, String key) {
    this.rank = rank;
    this.key = key;
  }

  /**
   * Asks, and waits for the answer.
   *
   * @param asker this rank, for messages
   * @throws TimeoutException if the other rank does not make the same call in time
   * @throws SystemErrorException if it cannot be reached
   */
  static byte[] ask(
      int asker, RejoinAddress where, PeerCredentials trust, String key, Deadline deadline) {
    EventLoop loop = EventLoop.acquire();
    RejoinCall call = new RejoinCall(where.rank(), key);
    ConnectionDialer dialer =
        new ConnectionDialer(loop, where.sockets(), Handshake.Service.RING, trust, ROUNDS, call);
    try {
      Duration left = Duration.ofNanos(Math.max(1, deadline.leftNanos()));
      loop.execute(() -> dialer.start(left));
      return call.answer.get(left.toNanos(), TimeUnit.NANOSECONDS);
    } catch (ExecutionException e) {
      throw new SystemErrorException(
          ErrorId.UNREACHABLE,
          "the rank that should lead the new communicator cannot be reached at %s: %s"
              .formatted(where.text(), e.getCause().getMessage()),
          "make the same call on all ranks of the new communicator, and leave out the dead ones",
          e);
    } catch (java.util.concurrent.TimeoutException e) {
      throw new TimeoutException(
          ErrorId.RANKS_MISSING,
          "the rank that should lead the new communicator, at %s, has not made the matching call within %s"
              .formatted(where.text(), deadline.text()),
          "make the same call, with the same ranks, on all ranks of the new communicator, or allow"
              + " more time with NCCL4J_INIT_TIMEOUT",
          e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new InvalidUsageException(
          ErrorId.INTERRUPTED,
          "rank %d's thread was interrupted while it made a communicator".formatted(asker),
          "do not interrupt a thread that is creating a communicator",
          e);
    } finally {
      loop.execute(dialer::cancel);
      loop.release();
    }
  }

  @Override
  public void reached(Connection connection) {
    connection.handTo(this, MAX_MESSAGE_BYTES);
    connection.send(
        new MessageWriter(FrameType.MEET).number(rank).text(key, RejoinPoint.MAX_KEY).done());
  }

  @Override
  public void failed(String reasons) {
    answer.completeExceptionally(new IOException(reasons));
  }

  @Override
  public void received(Connection from, FrameType type, MessageReader body)
      throws ProtocolException {
    if (type != FrameType.MEET_AT) {
      throw new ProtocolException("a meeting point sent " + type);
    }
    answer.complete(body.bytes(MAX_MESSAGE_BYTES));
    from.close();
  }

  @Override
  public void closed(Connection connection, IOException reason) {
    answer.completeExceptionally(new IOException("it closed the connection"));
  }
}
