package org.nccl4j.api.bootstrap;

import java.net.ProtocolException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.nccl4j.api.bootstrap.Bootstrap.CallListener;
import org.nccl4j.api.bootstrap.connection.Connection;
import org.nccl4j.api.bootstrap.connection.EventLoop;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageReader;
import org.nccl4j.api.bootstrap.connection.MessageWriter;

/**
 * Receives the calls of other ranks to this one. Calls that arrive before there is a listener wait.
 *
 * <p>Owner thread: the loop's.
 */
final class CallPoint {
  /** Both handles of a connection that is made late, and what says whose they are. */
  static final int MAX_BYTES = 12 << 10;

  private final EventLoop loop;
  private final List<Call> early = new ArrayList<>();

  /** Calls that have no answer yet. */
  private final Set<Connection> open = new HashSet<>();

  private CallListener listener;
  private boolean closed;

  private record Call(Connection from, byte[] request) {}

  CallPoint(EventLoop loop) {
    this.loop = loop;
  }

  /** Sets the listener. */
  void listen(CallListener newListener) {
    listener = newListener;
    early.forEach(this::tell);
    early.clear();
  }

  /** A rank that knows the secret calls. */
  void called(Connection from, MessageReader body) throws ProtocolException {
    Call call = new Call(from, body.bytes(MAX_BYTES));
    if (closed) {
      from.close();
      return;
    }
    open.add(from);
    if (listener == null) {
      early.add(call);
    } else {
      tell(call);
    }
  }

  private void tell(Call call) {
    listener.called(call.request, answer -> loop.execute(() -> answer(call.from, answer)));
  }

  private void answer(Connection to, byte[] answer) {
    if (open.remove(to)) {
      if (answer == null) {
        to.close();
      } else {
        to.finish(new MessageWriter(FrameType.ANSWER).bytes(answer).done());
      }
    }
  }

  /** A caller does not wait any more. */
  void gone(Connection connection) {
    open.remove(connection);
    early.removeIf(call -> call.from == connection);
  }

  void close() {
    closed = true;
    early.clear();
    open.forEach(Connection::close);
    open.clear();
  }
}
