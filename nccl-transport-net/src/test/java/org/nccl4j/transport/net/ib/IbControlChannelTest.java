package org.nccl4j.transport.net.ib;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ByteChannel;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.spi.NetContext;

/**
 * Ends tell each other their queue pairs over the channel that the context makes of a connection.
 */
@Timeout(600)
class IbControlChannelTest extends WithRoce {
  /** Which sides asked: true where they dialed. */
  private final List<Boolean> asked = new ArrayList<>();

  /** Turns every bit round, and takes a byte at a time. */
  private record Turned(SocketChannel channel) implements ByteChannel {
    @Override
    public int read(ByteBuffer target) throws IOException {
      ByteBuffer one = ByteBuffer.allocate(1);
      int read = target.hasRemaining() ? channel.read(one) : 0;
      if (read > 0) {
        target.put((byte) ~one.get(0));
      }
      return read;
    }

    @Override
    public int write(ByteBuffer source) throws IOException {
      if (!source.hasRemaining()) {
        return 0;
      }
      int written =
          channel.write(ByteBuffer.wrap(new byte[] {(byte) ~source.get(source.position())}));
      source.position(source.position() + written);
      return written;
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

  private NetContext turned(int rank) {
    NetContext plain = FakeVerbs.context(rank);
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
      public ByteChannel controlChannel(SocketChannel connected, boolean dialed) {
        asked.add(dialed);
        return new Turned(connected);
      }
    };
  }

  @Test
  void bothEndsUseIt() {
    try (IbLink link = new IbLink(turned(0), turned(1))) {
      assertEquals(List.of(true, false), asked);
      assertTrue(link.moves(10_000));
    }
  }
}
