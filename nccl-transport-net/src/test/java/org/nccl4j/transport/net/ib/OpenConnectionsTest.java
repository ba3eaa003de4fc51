package org.nccl4j.transport.net.ib;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class OpenConnectionsTest {
  private final List<String> closed = new ArrayList<>();

  private final class Part implements OpenConnections.Part {
    private final String name;
    private final boolean fails;

    Part(String name, boolean fails) {
      this.name = name;
      this.fails = fails;
    }

    @Override
    public boolean isClosed() {
      return false;
    }

    @Override
    public void close() {
      closed.add(name);
      if (fails) {
        throw new IllegalStateException(name);
      }
    }
  }

  @Test
  void allAreClosedEvenIfOneFails() {
    OpenConnections open = new OpenConnections();
    open.add(new Part("one", true));
    open.add(new Part("two", false));
    assertEquals("one", assertThrows(IllegalStateException.class, open::close).getMessage());
    assertEquals(List.of("one", "two"), closed);
    open.close();
    assertEquals(2, closed.size(), "once");
  }
}
