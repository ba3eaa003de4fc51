package org.nccl4j.api.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Addresses at which nobody answers. */
@Timeout(600)
class DialerTest {
  private static final Duration BOUND = Duration.ofSeconds(9);

  private final List<ServerSocketChannel> silent = new ArrayList<>();
  private final List<InetSocketAddress> addresses = new ArrayList<>();
  private long now;

  /** Connections come about, and nobody reads what is sent. */
  @BeforeEach
  void listen() throws IOException {
    for (int last = 1; last <= 3; last++) {
      ServerSocketChannel server = ServerSocketChannel.open();
      silent.add(server.bind(new InetSocketAddress("127.0.0." + last, 0)));
      addresses.add((InetSocketAddress) server.getLocalAddress());
    }
  }

  @AfterEach
  void close() throws IOException {
    for (ServerSocketChannel server : silent) {
      server.close();
    }
  }

  private static Handshake handshake() {
    return Handshake.client(new byte[16], Handshake.Service.SOCKET);
  }

  /** Returns the seconds after which a dialer leaves the first address for the second. */
  private double patience(Dialer dialer) throws IOException {
    long begin = now;
    do {
      assertEquals(addresses.get(0), dialer.current());
      assertNull(dialer.poll(DialerTest::handshake));
      now += 500_000_000;
    } while (!isLate(dialer));
    assertEquals(addresses.get(1), dialer.current());
    dialer.close();
    return (now - begin) / 1e9;
  }

  private boolean isLate(Dialer dialer) throws IOException {
    try {
      return dialer.poll(DialerTest::handshake) != null;
    } catch (IOException late) {
      assertTrue(dialer.failed(late), late.toString());
      return true;
    }
  }

  @Test
  void withinATimeAllAddressesAreTriedInHalfOfIt() throws IOException {
    double each =
        patience(Dialer.within(BOUND, addresses, PendingHandshake.Channels.PLAIN, () -> now));
    assertEquals(2, each); // 1.5 s have passed
  }

  @Test
  void noAddressGetsMoreThanUsual() throws IOException {
    Duration ages = Duration.ofHours(1);
    Dialer bounded = Dialer.within(ages, addresses, PendingHandshake.Channels.PLAIN, () -> now);
    Dialer usual = new Dialer(addresses, PendingHandshake.Channels.PLAIN, () -> now);
    assertEquals(patience(usual), patience(bounded));
  }

  @Test
  void theTimeIsInTheReason() throws IOException {
    Dialer dialer = Dialer.within(BOUND, addresses, PendingHandshake.Channels.PLAIN, () -> now);
    assertNull(dialer.poll(DialerTest::handshake));
    now = Duration.ofSeconds(2).toNanos();
    IOException late = assertThrows(IOException.class, () -> dialer.poll(DialerTest::handshake));
    assertEquals("no answer within 1.5 s", late.getMessage());
    dialer.close();
  }
}
