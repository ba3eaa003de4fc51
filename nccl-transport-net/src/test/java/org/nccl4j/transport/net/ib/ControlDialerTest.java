package org.nccl4j.transport.net.ib;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ByteChannel;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.PendingHandshake;
import org.nccl4j.device.RemoteException;
import org.nccl4j.transport.net.ib.control.ControlConnection;
import org.nccl4j.transport.net.ib.control.ControlDialer;
import org.nccl4j.transport.net.ib.control.IbHandle;
import org.nccl4j.transport.net.ib.control.RemotePort;
import org.nccl4j.transport.net.ib.control.RemoteQpInfo;

/** Control connections come about with slow and crowded listeners, and tell strangers nothing. */
@Timeout(600)
class ControlDialerTest {
  private static final byte[] SECRET = new byte[16];
  private static final long SESSION = 77;
  private static final int HELLO_BYTES = Handshake.HELLO_BYTES + Handshake.REQUEST_BYTES;
  private static final long SECOND = 1_000_000_000L;

  private final List<AutoCloseable> toClose = new ArrayList<>();
  private ServerSocketChannel server;
  private long now;
  private boolean sent;

  /** Makes channels that wait for bytes which a test has sent. */
  private final class Patient implements NetContext {
    @Override
    public int rank() {
      return 0;
    }

    @Override
    public byte[] secret() {
      return SECRET;
    }

    @Override
    public Optional<String> setting(String name) {
      return Optional.empty();
    }

    @Override
    public ByteChannel controlChannel(SocketChannel connected, boolean dialed) {
      return new ByteChannel() {
        @Override
        public int read(ByteBuffer target) throws IOException {
          int read;
          do {
            read = connected.read(target);
          } while (read == 0 && sent);
          sent = false;
          return read;
        }

        @Override
        public int write(ByteBuffer source) throws IOException {
          return connected.write(source);
        }

        @Override
        public boolean isOpen() {
          return connected.isOpen();
        }

        @Override
        public void close() throws IOException {
          connected.close();
        }
      };
    }
  }

  /** A condition that a test's step polls. */
  private interface Condition {
    boolean holds() throws IOException;
  }

  @BeforeEach
  void listen() throws IOException {
    server = keep(ServerSocketChannel.open());
    server.bind(new InetSocketAddress(loopback(), 0));
    server.configureBlocking(false);
  }

  @AfterEach
  void close() throws Exception {
    for (AutoCloseable each : toClose) {
      each.close();
    }
  }

  private <T extends AutoCloseable> T keep(T each) {
    toClose.add(each);
    return each;
  }

  private static InetAddress loopback() throws IOException {
    return InetAddress.getByName("127.0.0.1");
  }

  private static RemoteQpInfo end(int rank) {
    RemotePort port = new RemotePort("roce0:1", 1, 5, true, new byte[16], 100_000, 99);
    return new RemoteQpInfo(rank, false, 4096, 0, 0, List.of(port), new int[] {17});
  }

  private ControlDialer dialer(InetAddress... addresses) {
    IbHandle handle =
        new IbHandle(SESSION, server.socket().getLocalPort(), 1, 1, List.of(addresses));
    ControlDialer dialer = keep(new ControlDialer(handle, 0, new Patient(), () -> now));
    dialer.introduce(end(0));
    return dialer;
  }

  private static void until(Condition so) throws IOException {
    long end = System.nanoTime() + IbLink.DEADLINE_NANOS;
    while (!so.holds()) {
      assertTrue(System.nanoTime() - end < 0, "waited too long");
      Thread.onSpinWait();
    }
  }

  /** The next that comes; the dialler's pauses pass meanwhile. */
  private SocketChannel accept(ControlDialer dialer) throws IOException {
    SocketChannel[] came = new SocketChannel[1];
    until(
        () -> {
          now += SECOND / 100;
          assertFalse(dialer.step());
          came[0] = server.accept();
          return came[0] != null;
        });
    came[0].configureBlocking(false);
    return keep(came[0]);
  }

  private static PendingHandshake arrival(SocketChannel accepted) throws IOException {
    return new PendingHandshake(
        accepted,
        PendingHandshake.Channels.PLAIN,
        Handshake.server(SECRET, Handshake.Service.INFINIBAND));
  }

  private void meets(ControlDialer dialer, PendingHandshake arrival) throws IOException {
    meets(dialer, told(dialer, arrival));
  }

  private void meets(ControlDialer dialer, ControlConnection link) throws IOException {
    link.sendEnd(end(1));
    until(() -> link.flush() & dialer.step());
    assertEquals(1, dialer.remote().rank());
  }

  /** A listener that has been told the dialer's end, and has not answered. */
  private static ControlConnection told(ControlDialer dialer, PendingHandshake arrival)
      throws IOException {
    until(
        () -> {
          assertFalse(dialer.step());
          return arrival.poll();
        });
    assertEquals(SESSION, arrival.handshake().request().getLong());
    ControlConnection link = new ControlConnection(arrival);
    RemoteQpInfo[] end = new RemoteQpInfo[1];
    until(
        () -> {
          assertFalse(dialer.step());
          end[0] = link.receiveEnd();
          return end[0] != null;
        });
    assertEquals(0, end[0].rank());
    return link;
  }

  /** The answer of a listener without the secret: a hello, and zeros for a proof. */
  private static ByteBuffer stranger() throws IOException {
    Handshake other = Handshake.server(new byte[] {1}, Handshake.Service.INFINIBAND);
    byte[] hello = other.step(Handshake.client(SECRET, Handshake.Service.INFINIBAND).opening());
    return ByteBuffer.allocate(hello.length + Handshake.PROOF_BYTES).put(hello).clear();
  }

  @Test
  void aListenerThatProvesNothingLearnsNothing() throws IOException {
    ControlDialer dialer = dialer(loopback());
    SocketChannel accepted = accept(dialer);
    accepted.write(stranger());
    ByteBuffer told = ByteBuffer.allocate(10_000);
    RemoteException error =
        assertThrows(
            RemoteException.class,
            () ->
                until(
                    () -> {
                      accepted.read(told);
                      return dialer.step();
                    }));
    assertTrue(error.problem().contains("it does not know the communicator's secret"));
    until(() -> accepted.read(told) < 0);
    assertEquals(HELLO_BYTES + Handshake.PROOF_BYTES, told.position());
  }

  /** A listener that has no secret can only say again what the dialler says. */
  @Test
  void aProofSaidBackIsNone() throws IOException {
    ControlDialer dialer = dialer(loopback());
    SocketChannel accepted = accept(dialer);
    assertThrows(
        RemoteException.class,
        () ->
            until(
                () -> {
                  ByteBuffer some = ByteBuffer.allocate(1000);
                  accepted.read(some);
                  accepted.write(some.flip());
                  return dialer.step();
                }));
  }

  @Test
  void anAnswerThatIsThereIsTakenHoweverLateThisSideLooks() throws IOException {
    ControlDialer dialer = dialer(loopback());
    SocketChannel accepted = accept(dialer);
    ByteBuffer hello = ByteBuffer.allocate(HELLO_BYTES);
    until(
        () -> {
          assertFalse(dialer.step());
          accepted.read(hello);
          return !hello.hasRemaining();
        });
    Handshake server = Handshake.server(SECRET, Handshake.Service.INFINIBAND);
    accepted.write(ByteBuffer.wrap(server.step(hello.array())));
    sent = true;
    now += 60 * SECOND;
    ByteBuffer proof = ByteBuffer.allocate(Handshake.PROOF_BYTES);
    until(
        () -> {
          assertFalse(dialer.step());
          accepted.read(proof);
          return !proof.hasRemaining();
        });
    assertTrue(dialer.toString().endsWith(Integer.toString(this.server.socket().getLocalPort())));
  }

  @Test
  void aListenerThatIsSlowToMakeItsEndIsWaitedFor() throws IOException {
    ControlDialer dialer = dialer(loopback());
    ControlConnection link = told(dialer, arrival(accept(dialer)));
    now += 60 * SECOND;
    assertFalse(dialer.step());
    meets(dialer, link);
  }

  @Test
  void whoIsSilentIsTriedAgain() throws IOException {
    ControlDialer dialer = dialer(loopback());
    accept(dialer);
    now += 6 * SECOND;
    assertFalse(dialer.step());
    assertTrue(dialer.toString().contains("(no answer within 5 s)"), dialer.toString());
    meets(dialer, arrival(accept(dialer)));
  }

  /** Two dead addresses of 5 s each would take all of the time that a move has. */
  @Test
  void inPlaceOfAnotherAllAddressesAreTriedInHalfOfTheTime() throws IOException {
    List<InetAddress> addresses = List.of(loopback(), loopback());
    IbHandle handle = new IbHandle(SESSION, server.socket().getLocalPort(), 1, 1, addresses);
    ControlDialer dialer =
        keep(ControlDialer.replacing(handle, 1, new Patient(), Duration.ofSeconds(10), () -> now));
    dialer.introduce(end(0));
    accept(dialer);
    now += 3 * SECOND;
    assertFalse(dialer.step());
    assertTrue(dialer.toString().contains("(no answer within 2.5 s)"), dialer.toString());
    accept(dialer);
    now += 3 * SECOND;
    assertFalse(dialer.step());
    meets(dialer, arrival(accept(dialer)));
  }

  @Test
  void whoIsCrowdedOutComesAgain() throws IOException {
    ControlDialer dialer = dialer(loopback());
    for (int times = 0; times < 4; times++) {
      accept(dialer).close();
    }
    meets(dialer, arrival(accept(dialer)));
  }

  /** Here a scope that no interface has; with java.net.preferIPv4Stack any IPv6 address. */
  @Test
  void anAddressThatJavaDoesNotTakeIsLeftForTheNext() throws IOException {
    byte[] linkLocal = new byte[16];
    linkLocal[0] = (byte) 0xfe;
    linkLocal[1] = (byte) 0x80;
    linkLocal[15] = 1;
    InetAddress nowhere = Inet6Address.getByAddress("nowhere", linkLocal, 9999);
    ControlDialer dialer = dialer(nowhere, loopback());
    meets(dialer, arrival(accept(dialer)));
  }
}
