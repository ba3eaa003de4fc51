package org.nccl4j.api.bootstrap;

import java.io.IOException;
import java.net.ProtocolException;
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
 * A call to another rank's {@link CallPoint}, over a connection of its own.
 *
 * <p>Owner thread: the loop's.
 */
final class PeerCall implements ConnectionDialer.Outcome, Connection.Owner {
  private static final int ROUNDS = 20;

  private final RejoinAddress where;
  private final byte[] request;
  private final CompletableFuture<byte[]> answer = new CompletableFuture<>();
  private Connection connection;

  private PeerCall(RejoinAddress where, byte[] request) {
    this.where = where;
    this.request = request;
  }

  /**
   * Calls; does not wait.
   *
   * @param limit for the connection, not for the answer
   * @return the answer, whose cancelling ends the call
   */
  static CompletableFuture<byte[]> begin(
      RejoinAddress where, PeerCredentials trust, byte[] request, Duration limit) {
    EventLoop loop = EventLoop.acquire();
    PeerCall call = new PeerCall(where, request);
    ConnectionDialer dialer =
        new ConnectionDialer(loop, where.sockets(), Handshake.Service.RING, trust, ROUNDS, call);
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
    reached.handTo(this, CallPoint.MAX_BYTES + Integer.BYTES);
    reached.send(new MessageWriter(FrameType.CALL).number(where.rank()).bytes(request).done());
  }

  @Override
  public void failed(String reasons) {
    answer.completeExceptionally(new IOException(reasons));
  }

  @Override
  public void received(Connection from, FrameType type, MessageReader body)
      throws ProtocolException {
    if (type != FrameType.ANSWER) {
      throw new ProtocolException("a called rank sent " + type);
    }
    answer.complete(body.bytes(CallPoint.MAX_BYTES));
  }

  @Override
  public void closed(Connection ended, IOException reason) {
    answer.completeExceptionally(
        new IOException("it closed the connection, or its communicator is closed"));
  }
}
