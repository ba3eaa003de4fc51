package org.nccl4j.transport.net.socket.link;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.api.wire.tls.NetworkTls;
import org.nccl4j.api.wire.tls.TlsFiles;

/** TLS may have encrypted the first byte of a message that counts as not begun. */
@Timeout(600)
class OwedByteTest {
  /** A socket holds less than TLS encrypts at once. */
  private static final int SMALL = 4096;

  private static final Path FILES =
      Path.of("..", "nccl-api", "src", "test", "resources", "org/nccl4j/api/bootstrap/tls");

  private final NetworkTls tls =
      NetworkTls.of(
          new TlsFiles(
              FILES.resolve("rank.pem").toString(),
              FILES.resolve("rank.key").toString(),
              FILES.resolve("authority.pem").toString()));

  /** Two ends that have ended the handshake of TLS. */
  private final class Pair implements AutoCloseable {
    private final DataChannel near;
    private final DataChannel far;

    Pair() throws IOException {
      try (ServerSocketChannel server = ServerSocketChannel.open()) {
        server.setOption(StandardSocketOptions.SO_RCVBUF, SMALL);
        server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
        SocketChannel from = SocketChannel.open();
        from.setOption(StandardSocketOptions.SO_SNDBUF, SMALL);
        from.connect(server.getLocalAddress());
        SocketChannel to = server.accept();
        from.configureBlocking(false);
        to.configureBlocking(false);
        near = tls.data(from, true);
        far = tls.data(to, false);
      }
      ByteBuffer out = ByteBuffer.allocate(1);
      ByteBuffer in = ByteBuffer.allocate(1);
      while (out.hasRemaining() || in.hasRemaining()) {
        near.write(out);
        far.read(in);
      }
    }

    @Override
    public void close() throws IOException {
      near.close();
      far.close();
    }
  }

  @Test
  void anAcknowledgementWaitsForTheRestOfTheNextMessage() throws IOException {
    int first;
    try (Pair probe = new Pair()) {
      first = probe.near.write(ByteBuffer.allocate(SendLog.RING));
    }
    SocketWatch watch = new SocketWatch(Duration.ZERO, Duration.ZERO, () -> {}, () -> null);
    try (Pair pair = new Pair()) {
      SocketLink link =
          new SocketLink(
              new DataChannel[] {pair.near}, new NoSpareSockets(), watch, /* sums= */ false);
      assertTrue(link.enterSoon(), "the watch lets go of it");
      record(link.log(), first, (byte) 1);
      record(link.log(), SocketLink.HEADER_BYTES, (byte) 2);
      assertFalse(link.log().write(link.socket()));
      assertEquals(1, link.log().written());
      assertTrue(link.log().isBetweenRecords() && link.socket().owes());
      link.received(1, 0, /* copied= */ true);
      link.acknowledge(/* all= */ true);
      int messages = first + SocketLink.HEADER_BYTES;
      ByteBuffer came = ByteBuffer.allocate(messages + SocketLink.HEADER_BYTES);
      while (came.hasRemaining()) {
        if (link.writeAck() && link.log().write(link.socket())) {
          link.acknowledge(/* all= */ true);
        }
        pair.far.read(came);
      }
      byte[] expected = new byte[messages];
      Arrays.fill(expected, 0, first, (byte) 1);
      Arrays.fill(expected, first, messages, (byte) 2);
      assertArrayEquals(expected, Arrays.copyOf(came.array(), messages));
      assertEquals(SocketLink.ACK, came.getInt(messages));
      link.leave();
      link.end();
    } finally {
      watch.close();
    }
  }

  private static void record(SendLog log, int bytes, byte value) {
    ByteBuffer ring = log.begin(bytes);
    byte[] all = new byte[bytes];
    Arrays.fill(all, value);
    ring.put(all);
    log.end(bytes, null, 0, 0);
  }
}
