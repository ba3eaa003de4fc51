package org.nccl4j.api.bootstrap;

import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.bootstrap.connection.Connection;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageReader;
import org.nccl4j.api.bootstrap.connection.MessageWriter;

/**
 * Answers other ranks that ask for the id of a new root, so that some of the ranks can form a new
 * bootstrap, also after a failure, since it needs neither the old root nor the ring. The answer is
 * the new root's id without its secret, which both sides derive.
 *
 * <p>Owner thread: the loop's.
 */
final class RejoinPoint {
  static final int MAX_KEY = 2048;

  /** Bytes of an answer. */
  static final int MAX_WAY = 4092;

  private final Map<String, byte[]> published = new HashMap<>();
  private final Map<String, List<Connection>> waiting = new HashMap<>();
  private boolean closed;

  /** Answers those who ask for a key, from now on. */
  void publish(String key, byte[] way) {
    if (!closed) {
      published.put(key, way);
      waiting.getOrDefault(key, List.of()).forEach(connection -> answer(connection, way));
      waiting.remove(key);
    }
  }

  /** Forgets a way that all have taken who needed it. */
  void withdraw(String key) {
    published.remove(key);
  }

  /** Answers a rank that has proved knowledge of the secret. */
  void asked(Connection connection, MessageReader body) throws ProtocolException {
    String key = body.text(MAX_KEY);
    byte[] way = published.get(key);
    if (closed) {
      connection.close();
    } else if (way != null) {
      answer(connection, way);
    } else {
      waiting.computeIfAbsent(key, none -> new ArrayList<>()).add(connection);
    }
  }

  /** A rank that asked does not wait any more. */
  void gone(Connection connection) {
    waiting.values().forEach(list -> list.remove(connection));
  }

  private static void answer(Connection connection, byte[] way) {
    ByteBuffer message = new MessageWriter(FrameType.MEET_AT).bytes(way).done();
    connection.finish(message);
  }

  void close() {
    closed = true;
    waiting.values().forEach(list -> list.forEach(Connection::close));
    waiting.clear();
  }
}
