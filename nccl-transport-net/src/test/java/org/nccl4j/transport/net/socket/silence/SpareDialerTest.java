package org.nccl4j.transport.net.socket.silence;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Method;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.api.wire.Dialer;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.PendingHandshake;

/** When a connection that has moved returns, and what it costs to see that it has not moved. */
class SpareDialerTest {
  private static final Duration SILENCE = Duration.ofSeconds(8);
  private static final int LOOKS = 10_000;

  /** A dialer is asked for. */
  private static final class Dials extends RuntimeException {
    private static final long serialVersionUID = 1;
    private final transient List<InetSocketAddress> addresses;

    Dials(List<InetSocketAddress> addresses) {
      this.addresses = addresses;
    }
  }

  private ServerSocketChannel server;
  private DataChannel socket;
  private InetSocketAddress reached;
  private InetSocketAddress other;
  private SpareDialer spare;
  private long now;

  @BeforeEach
  void connect() throws Exception {
    server =
        ServerSocketChannel.open().bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
    reached = (InetSocketAddress) server.getLocalAddress();
    other = new InetSocketAddress(InetAddress.getByName("127.0.0.2"), reached.getPort());
    socket = DataChannel.plain(SocketChannel.open(reached));
    spare =
        new SpareDialer(
            List.of(other, reached),
            addresses -> {
              throw new Dials(addresses);
            },
            () -> {
              throw new AssertionError("nothing has been dialled");
            },
            proved -> {
              throw new AssertionError("nothing has been dialled");
            },
            SILENCE,
            () -> now);
  }

  @AfterEach
  void close() throws Exception {
    socket.close();
    server.close();
  }

  @Test
  void aSocketThatLeadsHomeStays() {
    assertFalse(spare.isHome(socket));
    assertFalse(spare.prepareReturn(socket, reached));
    assertTrue(spare.isHome(socket));
    now = SILENCE.multipliedBy(1000).toNanos();
    assertFalse(spare.prepareReturn(socket, reached));
  }

  @Test
  void aSocketThatLeadsElsewhereReturnsAfterATime() {
    now = 5;
    assertFalse(spare.prepareReturn(socket, other));
    assertFalse(spare.isHome(socket));
    now = SILENCE.toNanos() + 4;
    assertFalse(spare.prepareReturn(socket, other));
    now++;
    Dials dials = assertThrows(Dials.class, () -> spare.prepareReturn(socket, other));
    assertEquals(List.of(other), dials.addresses);
  }

  /** The socket falls silent, too, and nobody answers at the connection's own address. */
  @Test
  void aReturnThatIsUnderWayMakesWayForAllAddresses() throws Exception {
    List<List<InetSocketAddress>> dialled = new ArrayList<>();
    spare =
        new SpareDialer(
            List.of(other, reached),
            addresses -> {
              dialled.add(addresses);
              return new Dialer(addresses, PendingHandshake.Channels.PLAIN, () -> now);
            },
            () -> Handshake.client(new byte[16], Handshake.Service.SOCKET, new byte[16]),
            proved -> {
              throw new AssertionError("nobody answers");
            },
            SILENCE,
            () -> now);
    try (ServerSocketChannel silent = ServerSocketChannel.open().bind(other)) {
      spare.prepareReturn(socket, other);
      now = SILENCE.toNanos();
      assertFalse(spare.prepareReturn(socket, other));
      assertFalse(spare.prepare(socket));
      assertFalse(spare.prepare(socket));
      assertEquals(List.of(List.of(other), List.of(other, reached)), dialled);
      assertTrue(silent.isOpen());
    } finally {
      spare.close();
    }
  }

  /** The watch looks at each socket again and again, also between warm operations. */
  @Test
  void looksAllocateNothing() throws Exception {
    long least = Long.MAX_VALUE;
    for (int round = 0; round < 5; round++) {
      InetSocketAddress home = round % 2 == 0 ? reached : other;
      spare.prepareReturn(socket, home);
      long before = allocated();
      for (int look = 0; look < LOOKS; look++) {
        spare.isHome(socket);
        spare.prepareReturn(socket, home);
      }
      least = Math.min(least, allocated() - before);
    }
    assertTrue(least < LOOKS, LOOKS + " looks allocate " + least + " bytes");
  }

  /** Bytes that this thread has allocated; by reflection: the module does not require the bean. */
  private static long allocated() throws ReflectiveOperationException {
    Object bean =
        Class.forName("java.lang.management.ManagementFactory")
            .getMethod("getThreadMXBean")
            .invoke(null);
    Method bytes =
        Class.forName("com.sun.management.ThreadMXBean")
            .getMethod("getThreadAllocatedBytes", long.class);
    @SuppressWarnings("deprecation")
    long thread = Thread.currentThread().getId();
    return (long) bytes.invoke(bean, thread);
  }
}
