package org.nccl4j.transport.net.socket.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class SocketConnectionTest {
  private final List<String> closed = new ArrayList<>();

  @Test
  void itsSocketsAreClosedEvenIfItsThreadsDoNotEnd() {
    SocketSource source =
        new SocketSource() {
          @Override
          public SocketLink poll() {
            return null;
          }

          @Override
          public void close() {
            closed.add("source");
          }
        };
    SocketConnection connection =
        new SocketConnection(source) {
          @Override
          int sockets() {
            return 1;
          }

          @Override
          void end() {
            throw new IllegalStateException("a thread has not ended");
          }
        };
    assertThrows(IllegalStateException.class, connection::close);
    assertEquals(List.of("source"), closed);
  }
}
