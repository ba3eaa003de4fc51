package org.nccl4j.api.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.ConnectException;
import java.net.InetSocketAddress;
import java.net.NoRouteToHostException;
import java.net.ProtocolException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SocketChannel;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The address that is tried next, and the time of the trial. */
class AddressTrialsTest {
  private static final long SECOND = 1_000_000_000L;
  private static final IOException REFUSED = new ConnectException("Connection refused");
  private static final IOException LET_GO = new ClosedChannelException();
  private static final IOException NO_ROUTE = new NoRouteToHostException("No route to host");

  /** Begins where it must not matter. */
  private long now = Long.MAX_VALUE - SECOND;

  private final AddressTrials two =
      new AddressTrials(
          List.of(new InetSocketAddress("127.0.0.1", 1), new InetSocketAddress("127.0.0.2", 1)),
          AddressTrials.FIRST_PATIENCE);

  private boolean fails(IOException why) {
    for (int millis = 0; !two.mayBegin(now); millis++) {
      assertTrue(millis <= 2000, "a pause has an end");
      now += SECOND / 1000;
    }
    two.begin(now);
    return two.failed(why, "why", now);
  }

  @Test
  void oneThatLeadsNowhereIsLeftForTheNextAndTriedAgainAfterThat() {
    assertTrue(fails(NO_ROUTE));
    assertEquals("127.0.0.2:1", Sockets.text(two.current()));
    assertTrue(two.mayBegin(now), "the next at once");
    assertTrue(fails(REFUSED));
    assertEquals("127.0.0.1:1", Sockets.text(two.current()));
    assertFalse(two.mayBegin(now), "all of them after a pause");
    assertFalse(two.areHopeless());
    assertEquals("127.0.0.1:1 (why), 127.0.0.2:1 (why)", two.failures());
  }

  @Test
  void whoIsLetGoTriesTheSameAgainForAWhile() {
    for (int times = 0; times < 5; times++) {
      assertFalse(fails(LET_GO));
      assertEquals(0, two.index());
    }
    now += 5 * SECOND;
    assertTrue(fails(LET_GO));
    assertEquals(1, two.index());
  }

  @Test
  void whereAllSayNoForGoodThereIsNoHope() {
    assertTrue(fails(REFUSED));
    assertFalse(two.areHopeless());
    assertTrue(fails(new ProtocolException("it does not know the secret")));
    assertTrue(two.areHopeless());
  }

  /** So is an IPv6 address where java.net.preferIPv4Stack is set. */
  @Test
  void anAddressThatJavaDoesNotTakeIsAnIoException() throws IOException {
    try (SocketChannel channel = SocketChannel.open()) {
      InetSocketAddress unresolved = InetSocketAddress.createUnresolved("nowhere", 1);
      assertThrows(ProtocolException.class, () -> AddressTrials.connect(channel, unresolved));
    }
  }

  @Test
  void anAnswerGivesTimeForTheNextAndPatienceGrows() {
    two.begin(now);
    now += 4 * SECOND;
    two.progressed(now);
    now += 4 * SECOND;
    assertFalse(two.isLate(now));
    now += 2 * SECOND;
    assertTrue(two.isLate(now));
    two.failed(two.late(), "late", now);
    assertTrue(fails(NO_ROUTE));
    now += 2 * SECOND;
    two.begin(now);
    now += 9 * SECOND;
    assertFalse(two.isLate(now), "10 s in the second round");
  }
}
