package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ByteChannel;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.wire.tls.NetworkTls;
import org.nccl4j.api.wire.tls.TlsFiles;

/** Control messages of networks over TLS, with both ends on one thread. */
@Timeout(60)
class NetworkTlsTest {
  private static final byte[] GREETING = "nobody reads this".getBytes(StandardCharsets.US_ASCII);

  /** Two ends of a connection, of which neither waits. */
  private static final class Pair implements AutoCloseable {
    final SocketChannel dialed;
    final SocketChannel accepted;

    Pair() throws IOException {
      try (ServerSocketChannel server = ServerSocketChannel.open()) {
        server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
        dialed = SocketChannel.open(server.getLocalAddress());
        accepted = server.accept();
      }
      dialed.configureBlocking(false);
      accepted.configureBlocking(false);
    }

    @Override
    public void close() throws IOException {
      dialed.close();
      accepted.close();
    }
  }

  private static NetworkTls tls(String certificate, String authority) throws Exception {
    return NetworkTls.of(
        new TlsFiles(
            file(certificate + ".pem"), file(certificate + ".key"), file(authority + ".pem")));
  }

  private static String file(String name) throws Exception {
    return Path.of(NetworkTlsTest.class.getResource("tls/" + name).toURI()).toString();
  }

  /** Writes all from one end while the other reads, by turns. */
  private static byte[] moved(ByteChannel from, ByteChannel to, byte[] bytes) throws IOException {
    ByteBuffer source = ByteBuffer.wrap(bytes);
    ByteBuffer target = ByteBuffer.allocate(bytes.length);
    while (target.hasRemaining()) {
      if (source.hasRemaining()) {
        from.write(source);
      }
      assertTrue(to.read(target) >= 0, "the connection is open");
    }
    return target.array();
  }

  private static byte[] read(ByteChannel channel) throws IOException {
    ByteBuffer target = ByteBuffer.allocate(GREETING.length);
    while (target.hasRemaining()) {
      assertTrue(channel.read(target) >= 0, "the connection is open");
    }
    return target.array();
  }

  @Test
  void bytesArriveBothWaysAndTheEndIsSeen() throws Exception {
    NetworkTls tls = tls("rank", "authority");
    byte[] much = new byte[300_000];
    new Random(5).nextBytes(much);
    try (Pair pair = new Pair()) {
      ByteChannel one = tls.control(pair.dialed, true);
      ByteChannel other = tls.control(pair.accepted, false);
      assertArrayEquals(GREETING, moved(one, other, GREETING));
      assertArrayEquals(GREETING, moved(other, one, GREETING));
      assertArrayEquals(much, moved(other, one, much));
      assertArrayEquals(much, moved(one, other, much));
      one.close();
      assertFalse(one.isOpen());
      int read = 0;
      while (read == 0) {
        read = other.read(ByteBuffer.allocate(1));
      }
      assertEquals(-1, read);
    }
  }

  /** Both ends of a network's greeting write before they read. */
  @Test
  void endsThatOnlyWriteMakeTheHandshakeToo() throws Exception {
    NetworkTls tls = tls("rank", "authority");
    try (Pair pair = new Pair()) {
      ByteChannel one = tls.control(pair.dialed, true);
      ByteChannel other = tls.control(pair.accepted, false);
      ByteBuffer first = ByteBuffer.wrap(GREETING);
      ByteBuffer second = ByteBuffer.wrap(GREETING);
      while (first.hasRemaining() || second.hasRemaining()) {
        one.write(first);
        other.write(second);
      }
      assertArrayEquals(GREETING, read(one));
      assertArrayEquals(GREETING, read(other));
    }
  }

  @Test
  void whatGoesOverTheWireIsNotReadable() throws Exception {
    NetworkTls tls = tls("rank", "authority");
    ByteArrayOutputStream seen = new ByteArrayOutputStream();
    try (Pair near = new Pair();
        Pair far = new Pair()) {
      ByteChannel one = tls.control(near.dialed, true);
      ByteChannel other = tls.control(far.accepted, false);
      ByteBuffer source = ByteBuffer.wrap(GREETING);
      ByteBuffer target = ByteBuffer.allocate(GREETING.length);
      while (target.hasRemaining()) {
        if (source.hasRemaining()) {
          one.write(source);
        } else {
          one.read(ByteBuffer.allocate(0));
        }
        other.read(target);
        pass(near.accepted, far.dialed, seen);
        pass(far.dialed, near.accepted, seen);
      }
      assertArrayEquals(GREETING, target.array());
    }
    String text = seen.toString(StandardCharsets.ISO_8859_1);
    assertFalse(text.contains(new String(GREETING, StandardCharsets.US_ASCII)));
  }

  private static void pass(SocketChannel from, SocketChannel to, ByteArrayOutputStream seen)
      throws IOException {
    ByteBuffer bytes = ByteBuffer.allocate(1 << 16);
    from.read(bytes);
    bytes.flip();
    seen.write(bytes.array(), 0, bytes.limit());
    while (bytes.hasRemaining()) {
      to.write(bytes);
    }
  }

  @Test
  void aStrangersCertificateIsRefusedByName() throws Exception {
    try (Pair pair = new Pair()) {
      ByteChannel one = tls("stranger", "both-authorities").control(pair.dialed, true);
      ByteChannel other = tls("rank", "authority").control(pair.accepted, false);
      IOException refused =
          assertThrows(
              IOException.class,
              () -> {
                while (true) {
                  one.write(ByteBuffer.wrap(GREETING));
                  other.read(ByteBuffer.allocate(1));
                }
              });
      assertTrue(refused.getMessage().contains("NCCL4J_TLS_C"), refused.getMessage());
    }
  }

  @Test
  void withoutCertificatesItIsTheConnectionItself() throws Exception {
    try (Pair pair = new Pair()) {
      NetworkTls plain = NetworkTls.of(TlsFiles.NONE);
      assertSame(pair.dialed, plain.control(pair.dialed, true));
    }
  }
}
