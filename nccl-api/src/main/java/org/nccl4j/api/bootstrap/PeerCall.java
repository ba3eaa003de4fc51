package org.nccl4j.api.bootstrap;

import java.io.IOException;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.nccl4j.api.bootstrap.connection.Connection;
import org.nccl4j.api.bootstrap.connection.ConnectionDialer;
import org.nccl4j.api.bootstrap.connection.EventLoop;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageReader;
import org.nccl4j.api.bootstrap.connection.MessageWriter;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.tls.PeerCredentials;

/**
 * A call to another rank's {@link CallPoint} or {@link RejoinPoint}, over its own connection.
 *
 * <p>Owner thread: the loop's.
 */
final class PeerCall implements ConnectionDialer.Outcome, Connection.Owner {
  private static final int ROUNDS = 20;

  private final Question question;
  private final CompletableFuture<byte[]> answer = new CompletableFuture<>();
  private Connection connection;

  /**
   * A question.
   *
   * @param rank that is asked
   * @param message that asks it
   * @param answer type of the message that answers it
   * @param mostBytes of the answer
   */
  record Question(int rank, ByteBuffer message, FrameType answer, int mostBytes) {
    /** A request to a rank's {@link CallPoint}. */
    static Question call(int rank, byte[] request) {
      return new Question(
          rank,
          new MessageWriter(FrameType.CALL).number(rank).bytes(request).done(),
          FrameType.ANSWER,
          CallPoint.MAX_BYTES);
    }

    /** The question for the way to a new root, to a rank's {@link RejoinPoint}. */
    static Question way(int rank, String key) {
      return new Question(
          rank,
          new MessageWriter(FrameType.MEET).number(rank).text(key, RejoinPoint.MAX_KEY).done(),
          FrameType.MEET_AT,
          RejoinPoint.MAX_WAY);
    }
  }

  private PeerCall(Question question) {
    this.question = question;
  }

  /**
   * Asks; does not wait.
   *
   * @param limit for the connection, not for the answer
   * @return the answer, whose cancelling ends the call
   */
  static CompletableFuture<byte[]> begin(
      RejoinAddress where, PeerCredentials trust, Question question, Duration limit) {
    EventLoop loop = EventLoop.acquire();
    PeerCall call = new PeerCall(question);
    ConnectionDialer dialer =
        new ConnectionDialer(loop, where.sockets(), Handshake.Service.RING, trust, ROUNDS, call)
            .naming(SharedRingListener.request(question.rank));
    loop.execute(() -> dialer.start(limit));
    call.answer.whenComplete(
        (bytes, failure) -> {
          loop.execute(
              () -> {
                dialer.cancel();
                call.hangUp();
              });
          loop.release();
        });
    return call.answer;
  }

  private void hangUp() {
    if (connection != null) {
      connection.close();
    }
  }

  @Override
  public void reached(Connection reached) {
    connection = reached;
    if (answer.isDone()) {
      reached.close();
      return;
    }
    reached.handTo(this, question.mostBytes + Integer.BYTES);
    reached.send(question.message);
  }

  @Override
  public void failed(String reasons) {
    answer.completeExceptionally(new IOException(reasons));
  }

  @Override
  public void received(Connection from, FrameType type, MessageReader body)
      throws ProtocolException {
    if (type != question.answer) {
      throw new ProtocolException("a rank answered a call with " + type);
    }
    answer.complete(body.bytes(question.mostBytes));
  }

  @Override
  public void closed(Connection ended, IOException reason) {
    answer.completeExceptionally(
        new IOException("it closed the connection, or its communicator is closed"));
  }
}
