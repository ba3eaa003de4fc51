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
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.api.wire.tls.NetworkTls;
import org.nccl4j.api.wire.tls.TlsFiles;

/** Control messages and data of networks over TLS, with both ends on one thread. */
@Timeout(600)
class NetworkTlsTest {
  private static final int MESSAGES = Boolean.getBoolean("nccl4j.thorough") ? 2000 : 500;
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

  /** The socket is full, and nobody writes any more. */
  @Test
  void controlMessagesThatWereWrittenArrive() throws Exception {
    NetworkTls tls = tls("rank", "authority");
    try (Pair pair = new Pair()) {
      ByteChannel one = tls.control(pair.dialed, true);
      ByteChannel other = tls.control(pair.accepted, false);
      assertArrayEquals(GREETING, moved(one, other, GREETING));
      ByteBuffer message = ByteBuffer.allocate(10_000);
      long written = -message.capacity();
      do {
        written += message.capacity();
        one.write(message.clear());
      } while (!message.hasRemaining());
      ByteBuffer target = ByteBuffer.allocate(1 << 16);
      long read = 0;
      while (read < written) {
        read += other.read(target.clear());
      }
    }
  }

  /** The last byte counts once the socket has it, so who writes again sends all. */
  @Test
  void whatWaitsForRoomIsWrittenByWhoComesAgain() throws Exception {
    NetworkTls tls = tls("rank", "authority");
    Random random = new Random(9);
    byte[] sent = new byte[8 << 20];
    random.nextBytes(sent);
    try (Pair pair = new Pair()) {
      DataChannel one = tls.data(pair.dialed, true);
      DataChannel other = tls.data(pair.accepted, false);
      assertArrayEquals(GREETING, moved(one, other, GREETING));
      ByteBuffer[] sources = {
        ByteBuffer.wrap(sent, 0, 1_000_001).slice(), ByteBuffer.wrap(sent, 1_000_001, 7_388_607)
      };
      ByteBuffer[] targets = {ByteBuffer.allocate(333_333), ByteBuffer.allocate(8_055_275)};
      boolean waited = false;
      long written = 0;
      long read = 0;
      while (written < sent.length) {
        long more = one.write(sources);
        written += more;
        assertEquals(written, sent.length - sources[0].remaining() - sources[1].remaining());
        if (more == 0) {
          waited = true;
          read += other.read(targets);
        }
      }
      assertTrue(waited, "the socket has been full");
      // Nobody writes any more: all that counts as written has to come.
      while (read < sent.length) {
        read += other.read(targets);
      }
      byte[] got = new byte[sent.length];
      targets[0].flip().get(got, 0, 333_333);
      targets[1].flip().get(got, 333_333, 8_055_275);
      assertArrayEquals(sent, got);
    }
  }

  @Test
  void aMessageAllocatesWhatTheEngineAllocates() throws Exception {
    long engine = Long.MAX_VALUE;
    long channel = Long.MAX_VALUE;
    SSLEngine[] engines = engines();
    NetworkTls tls = tls("rank", "authority");
    try (Pair pair = new Pair()) {
      DataChannel one = tls.data(pair.dialed, true);
      DataChannel other = tls.data(pair.accepted, false);
      assertArrayEquals(GREETING, moved(one, other, GREETING));
      assertArrayEquals(GREETING, moved(other, one, GREETING));
      ByteBuffer source = ByteBuffer.allocateDirect(4096);
      ByteBuffer target = ByteBuffer.allocateDirect(4096);
      ByteBuffer encrypted = ByteBuffer.allocate(1 << 16);
      ByteBuffer decrypted = ByteBuffer.allocateDirect(1 << 16);
      // The least of some rounds: the JVM allocates for itself now and then.
      for (int round = 0; round < 10 || round < 30 && channel - engine >= 16 * MESSAGES; round++) {
        long before = allocated();
        for (int message = 0; message < MESSAGES; message++) {
          engines[0].wrap(source.clear(), encrypted.clear());
          engines[1].unwrap(encrypted.flip(), decrypted.clear());
          assertEquals(source.capacity(), decrypted.position());
        }
        engine = Math.min(engine, allocated() - before);
        before = allocated();
        for (int message = 0; message < MESSAGES; message++) {
          source.clear();
          target.clear();
          while (target.hasRemaining()) {
            one.write(source);
            other.read(target);
          }
        }
        channel = Math.min(channel, allocated() - before);
      }
    }
    assertTrue(
        channel - engine < 16 * MESSAGES,
        "%d messages allocate %d bytes, the engine %d".formatted(MESSAGES, channel, engine));
  }

  /** Bytes that this thread has allocated; by reflection: the module does not require the bean. */
  private static long allocated() throws ReflectiveOperationException {
    Object bean =
        Class.forName("java.lang.management.ManagementFactory")
            .getMethod("getThreadMXBean")
            .invoke(null);
    @SuppressWarnings("deprecation")
    long thread = Thread.currentThread().getId();
    return (long)
        Class.forName("com.sun.management.ThreadMXBean")
            .getMethod("getThreadAllocatedBytes", long.class)
            .invoke(bean, thread);
  }

  /** A client and a server that have made the handshake. */
  private static SSLEngine[] engines() throws Exception {
    SSLContext context =
        new TlsFiles(file("rank.pem"), file("rank.key"), file("authority.pem"))
            .context()
            .orElseThrow();
    SSLEngine[] engines = {context.createSSLEngine(), context.createSSLEngine()};
    engines[0].setUseClientMode(true);
    engines[1].setUseClientMode(false);
    ByteBuffer[] wires = {ByteBuffer.allocate(1 << 16), ByteBuffer.allocate(1 << 16)};
    for (SSLEngine each : engines) {
      each.beginHandshake();
    }
    for (int step = 0; step < 100; step++) {
      for (int side = 0; side < 2; side++) {
        SSLEngine engine = engines[side];
        switch (engine.getHandshakeStatus()) {
          case NEED_WRAP -> engine.wrap(ByteBuffer.allocate(0), wires[side]);
          case NEED_TASK -> engine.getDelegatedTask().run();
          default -> {
            engine.unwrap(wires[1 - side].flip(), ByteBuffer.allocate(1 << 16));
            wires[1 - side].compact();
          }
        }
      }
    }
    return engines;
  }

  @Test
  void withoutCertificatesItIsTheConnectionItself() throws Exception {
    try (Pair pair = new Pair()) {
      NetworkTls plain = NetworkTls.of(TlsFiles.NONE);
      assertSame(pair.dialed, plain.control(pair.dialed, true));
      assertEquals(DataChannel.plain(pair.dialed), plain.data(pair.dialed, true));
    }
  }
}
