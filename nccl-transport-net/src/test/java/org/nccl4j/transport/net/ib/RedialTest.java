package org.nccl4j.transport.net.ib;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ByteChannel;
import java.nio.channels.SocketChannel;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.device.NcclException;

/**
 * The control connection goes over the port that dies, too, and nothing comes over it any more: the
 * sender dials another.
 */
@Timeout(600)
class RedialTest extends WithRoce {
  /** Connections up to this number let nothing through. */
  private volatile int dead;

  private int made;

  /** A connection whose packets vanish once it is dead. */
  private final class Mortal implements ByteChannel {
    private final SocketChannel channel;
    private final int number;

    private Mortal(SocketChannel channel, int number) {
      this.channel = channel;
      this.number = number;
    }

    @Override
    public int read(ByteBuffer target) throws IOException {
      return number <= dead ? 0 : channel.read(target);
    }

    @Override
    public int write(ByteBuffer source) throws IOException {
      return number <= dead ? 0 : channel.write(source);
    }

    @Override
    public boolean isOpen() {
      return channel.isOpen();
    }

    @Override
    public void close() throws IOException {
      channel.close();
    }
  }

  private NetContext mortal(int rank, String... settings) {
    NetContext plain = FakeVerbs.context(rank, settings);
    return new NetContext() {
      @Override
      public int rank() {
        return plain.rank();
      }

      @Override
      public byte[] secret() {
        return plain.secret();
      }

      @Override
      public Optional<String> setting(String name) {
        return plain.setting(name);
      }

      @Override
      public synchronized ByteChannel controlChannel(SocketChannel connected, boolean dialed) {
        return new Mortal(connected, ++made);
      }
    };
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 1})
  void anotherControlConnectionIsDialled(int after) {
    String[] settings = {"NCCL4J_NET_FAILOVER_TIMEOUT", "50s"};
    try (IbLink link = new IbLink(mortal(0, settings), mortal(1, settings))) {
      assertTrue(link.moves(10_000));
      dead = made;
      fake.fake_break(after, 0); // the receiver's announcement, or the data
      assertTrue(link.moves(10_000));
      assertTrue(made > dead, "another");
      assertEquals(1, link.sender.failovers().count());
    }
  }

  @Test
  void withoutAnyTheErrorComesInTime() {
    String[] settings = {"NCCL4J_NET_FAILOVER_TIMEOUT", "500ms"};
    try (IbLink link = new IbLink(mortal(0, settings), mortal(1, settings))) {
      assertTrue(link.moves(10_000));
      dead = Integer.MAX_VALUE;
      fake.fake_break(1, 0);
      String text = assertThrows(NcclException.class, () -> link.moves(10_000)).getMessage();
      assertTrue(text.contains("no queue pair has taken over within 500 ms"), text);
    }
  }
}
