package org.nccl4j.transport.net.socket;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.InterfaceFilter;
import org.nccl4j.api.wire.PendingHandshake;
import org.nccl4j.api.wire.PortRange;
import org.nccl4j.api.wire.Sockets;
import org.nccl4j.api.wire.tls.NetworkTls;
import org.nccl4j.api.wire.tls.TlsFiles;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.transport.net.socket.link.DataSocketCount;
import org.nccl4j.transport.net.socket.link.NoSpareSockets;
import org.nccl4j.transport.net.socket.link.SharedSocketThreads;
import org.nccl4j.transport.net.socket.link.SocketLink;
import org.nccl4j.transport.net.socket.link.SocketSender;
import org.nccl4j.transport.net.socket.link.SocketSource;
import org.nccl4j.transport.net.socket.link.SocketWatch;

/** Sockets come about with slow and crowded listeners, while there are strangers. */
@Timeout(600)
class SocketDialerTest {
  private static final byte[] SECRET = "sixteen bytes ok".getBytes(StandardCharsets.US_ASCII);
  private static final Protection PLAIN =
      new Protection(SECRET, false, false, NetworkTls.of(TlsFiles.NONE));
  private static final Protection ENCRYPTED =
      new Protection(SECRET, false, true, NetworkTls.of(certificates()));
  private static final DataSocketCount NO_LANES = new DataSocketCount(0, 0, false);
  private static final SharedSocketThreads THREADS = new SharedSocketThreads(1);
  private static final long SECOND = 1_000_000_000L;
  private static final int MOST_CLOSES = 10;

  private final List<AutoCloseable> toClose = new ArrayList<>();
  private final SocketWatch watch =
      new SocketWatch(Duration.ZERO, Duration.ZERO, () -> {}, () -> null);
  private final RailTrials rails = new RailTrials();
  private long now;

  @AfterEach
  void close() throws Exception {
    watch.close();
    for (AutoCloseable each : toClose) {
      each.close();
    }
  }

  private <T extends AutoCloseable> T keep(T each) {
    toClose.add(each);
    return each;
  }

  private static NetContext context() {
    Map<String, String> settings = Map.of("NCCL_SOCKET_IFNAME", "lo");
    return new NetContext() {
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
        return Optional.ofNullable(settings.get(name));
      }
    };
  }

  private static TlsFiles certificates() {
    Path files =
        Path.of("..", "nccl-api", "src", "test", "resources", "org/nccl4j/api/bootstrap/tls");
    return new TlsFiles(
        files.resolve("rank.pem").toString(),
        files.resolve("rank.key").toString(),
        files.resolve("authority.pem").toString());
  }

  private ServerSocketChannel server() throws IOException {
    ServerSocketChannel server = keep(ServerSocketChannel.open());
    server.bind(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), 0));
    server.configureBlocking(false);
    return server;
  }

  private SocketDialer dial(int port, InetAddress... addresses) {
    return dial(PLAIN, port, addresses);
  }

  private SocketDialer dial(Protection protection, int port, InetAddress... addresses) {
    byte[] token = SocketRequest.newToken();
    SocketHandle handle =
        new SocketHandle(
            0,
            port,
            token,
            List.of(addresses),
            Collections.nCopies(addresses.length, SocketHandle.FASTEST),
            addresses.length,
            false,
            false,
            protection.encrypted());
    return new SocketDialer(handle, protection, false, watch, rails, () -> now);
  }

  private static InetAddress loopback() throws IOException {
    return InetAddress.getByName("127.0.0.1");
  }

  private static void until(BooleanSupplier so) {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(300);
    while (!so.getAsBoolean()) {
      assertTrue(System.nanoTime() - end < 0, "waited too long");
      Thread.onSpinWait();
    }
  }

  /** The next that comes; the dial has to be polled for that. */
  private SocketChannel accept(ServerSocketChannel server, SocketDialer dial) {
    SocketChannel[] came = new SocketChannel[1];
    until(
        () -> {
          now += SECOND / 100;
          assertNull(dial.poll());
          try {
            came[0] = server.accept();
            if (came[0] != null) {
              came[0].configureBlocking(false);
            }
          } catch (IOException e) {
            throw new AssertionError(e);
          }
          return came[0] != null;
        });
    return keep(came[0]);
  }

  private static PendingHandshake host(SocketChannel accepted) throws IOException {
    return new PendingHandshake(
        accepted,
        PendingHandshake.Channels.PLAIN,
        Handshake.server(SECRET, Handshake.Service.SOCKET));
  }

  private void greets(SocketChannel accepted, SocketDialer dial) throws IOException {
    PendingHandshake host = host(accepted);
    SocketLink[] connected = new SocketLink[1];
    until(
        () -> {
          try {
            boolean hosted = host.poll();
            connected[0] = dial.poll();
            return hosted && connected[0] != null;
          } catch (IOException e) {
            throw new AssertionError(e);
          }
        });
    keep(connected[0].sockets()[0]);
  }

  @Test
  void whoIsCrowdedOutComesAgain() throws IOException {
    ServerSocketChannel server = server();
    SocketDialer dial = dial(server.socket().getLocalPort(), loopback());
    for (int times = 0; times < 4; times++) {
      accept(server, dial).close();
    }
    greets(accept(server, dial), dial);
  }

  @Test
  void anAnswerThatIsThereIsTakenHoweverLateThisSideLooks() throws IOException {
    ServerSocketChannel server = server();
    SocketDialer dial = dial(server.socket().getLocalPort(), loopback());
    SocketChannel accepted = accept(server, dial);
    PendingHandshake host = host(accepted);
    until(
        () -> {
          assertNull(dial.poll());
          try {
            host.poll();
            return host.steps() == 1; // and our hello is on its way
          } catch (IOException e) {
            throw new AssertionError(e);
          }
        });
    now += 60 * SECOND;
    assertNull(dial.poll());
    now += 60 * SECOND;
    greetsOn(host, dial);
  }

  private void greetsOn(PendingHandshake host, SocketDialer dial) {
    SocketLink[] connected = new SocketLink[1];
    until(
        () -> {
          try {
            host.poll();
            connected[0] = dial.poll();
            return connected[0] != null;
          } catch (IOException e) {
            throw new AssertionError(e);
          }
        });
    keep(connected[0].sockets()[0]);
  }

  @Test
  void whoIsSilentIsTriedAgain() throws IOException {
    ServerSocketChannel server = server();
    SocketDialer dial = dial(server.socket().getLocalPort(), loopback());
    accept(server, dial);
    now += 6 * SECOND;
    assertNull(dial.poll());
    assertTrue(dial.toString().contains("(no answer within 5 s)"), dial.toString());
    greets(accept(server, dial), dial);
  }

  /** The handshake of TLS has the deadline of the first step. */
  @Test
  void whoIsSilentInTheHandshakeOfTlsIsTriedAgain() throws IOException {
    ServerSocketChannel server = server();
    SocketDialer dial = dial(ENCRYPTED, server.socket().getLocalPort(), loopback());
    SocketChannel silent = accept(server, dial);
    until(() -> dial.poll() == null && hasCome(silent));
    now += 6 * SECOND;
    assertNull(dial.poll());
    assertTrue(dial.toString().contains("(no answer within 5 s)"), dial.toString());
    PendingHandshake host =
        new PendingHandshake(
            accept(server, dial),
            ENCRYPTED.channels(/* byTls= */ true, /* dialed= */ false),
            Handshake.server(SECRET, Handshake.Service.SOCKET));
    greetsOn(host, dial);
  }

  private static boolean hasCome(SocketChannel accepted) {
    try {
      return accepted.read(ByteBuffer.allocate(1)) > 0;
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  @Test
  void aStrangerThatDoesNotEndTheHandshakeOfTlsIsClosed() throws IOException {
    SocketSettings settings = SocketSettings.of(context());
    SocketPort port =
        SocketPort.open(ENCRYPTED, settings, Nics.find(settings).chosen(), 16, () -> now);
    toClose.add(port::close);
    SocketChannel stranger =
        keep(SocketChannel.open(new InetSocketAddress(loopback(), port.number())));
    // The header of a record that never comes.
    stranger.write(ByteBuffer.wrap(new byte[] {22, 3, 3, 1, 0}));
    until(
        () -> {
          port.poll();
          return port.guests() == 1;
        });
    now += 6 * SECOND;
    until(
        () -> {
          port.poll();
          return port.guests() == 0;
        });
    assertTrue(port.refusals().contains("it did not authenticate in time"), port.refusals());
  }

  @Test
  void whereEveryAddressRefusesTheErrorComesAtOnce() throws IOException {
    ServerSocketChannel server = server();
    int port = server.socket().getLocalPort();
    server.close();
    SocketDialer dial = dial(port, loopback());
    SystemErrorException error =
        assertThrows(SystemErrorException.class, () -> until(() -> dial.poll() != null));
    assertTrue(error.problem().contains("Connection refused"), error.problem());
  }

  /** Here a scope that no interface has; with java.net.preferIPv4Stack any IPv6 address. */
  @Test
  void anAddressThatJavaDoesNotTakeIsLeftForTheNext() throws IOException {
    byte[] linkLocal = new byte[16];
    linkLocal[0] = (byte) 0xfe;
    linkLocal[1] = (byte) 0x80;
    linkLocal[15] = 1;
    InetAddress nowhere = Inet6Address.getByAddress("nowhere", linkLocal, 9999);
    ServerSocketChannel server = server();
    SocketDialer dial = dial(server.socket().getLocalPort(), nowhere, loopback());
    greets(accept(server, dial), dial);
  }

  /** Two hosts may have the same address, such as that of a bridge to their containers. */
  @Test
  void anotherListenerAtTheSameAddressIsLeftForTheNextAddress() throws IOException {
    InetAddress wrong = InetAddress.getByName("127.0.0.2");
    InetAddress right = InetAddress.getByName("127.0.0.3");
    SocketPort[] ports = twoOfOneNumber(wrong, right);
    listener(ports[0], wrong);
    SocketListener awaiting = listener(ports[1], wrong, right);
    SocketDialer dial =
        keepDial(
            new SocketDialer(
                SocketHandle.fromBytes(awaiting.handle()), PLAIN, false, watch, rails, () -> now));
    NetReceiver[] receiver = new NetReceiver[1];
    until(
        () -> {
          ports[0].poll();
          receiver[0] = receiver[0] == null ? awaiting.accept() : receiver[0];
          return dial.poll() != null && receiver[0] != null;
        });
    assertTrue(ports[0].refusals().contains("no listener awaits"), ports[0].refusals());
    awaiting.closeAll();
  }

  /** A sender whose connection ends cannot know that the other side has closed it. */
  @Test
  void whoDialsAgainWhatIsClosedIsRefusedWithoutAWarning() throws IOException {
    SocketPort port = port(loopback(), PortRange.ANY);
    SocketListener closed = listener(port, loopback());
    SocketListener other = listener(port, loopback());
    byte[] token = SocketHandle.fromBytes(closed.handle()).token();
    closed.closeAll();
    assertRefused(port, token);
    assertEquals("", port.refusals());
    assertRefused(port, SocketRequest.newToken());
    assertTrue(port.refusals().contains("no listener awaits"), port.refusals());
    other.closeAll();
  }

  private void assertRefused(SocketPort port, byte[] token) throws IOException {
    SocketChannel socket =
        keep(SocketChannel.open(new InetSocketAddress(loopback(), port.number())));
    socket.configureBlocking(false);
    byte[] request = new SocketRequest(token, 0, 0, 1, false, /* resumes= */ true).toBytes();
    PendingHandshake dialing =
        new PendingHandshake(
            socket,
            PendingHandshake.Channels.PLAIN,
            Handshake.client(SECRET, Handshake.Service.SOCKET, request));
    until(
        () -> {
          port.poll();
          try {
            assertFalse(dialing.poll());
            return false;
          } catch (IOException e) {
            return true;
          }
        });
  }

  /** The socket that it takes the place of may have died without a word. */
  @Test
  void aSocketThatIsDialledAgainReplacesTheOneBefore() throws IOException {
    SocketPort port = port(loopback(), PortRange.ANY);
    SocketListener awaiting =
        new SocketListener(
            port, new DataSocketCount(1, 1, true), THREADS, rail(loopback()), false, watch);
    SocketHandle handle = SocketHandle.fromBytes(awaiting.handle());
    SocketDialer silent = keepDial(new SocketDialer(handle, PLAIN, false, watch, rails));
    until(
        () -> {
          port.poll();
          return awaiting.missing() == 1 || silent.poll() != null;
        });
    SocketDialer again = keepDial(new SocketDialer(handle, PLAIN, false, watch, rails));
    NetReceiver[] receiver = new NetReceiver[1];
    until(
        () -> {
          receiver[0] = receiver[0] == null ? awaiting.accept() : receiver[0];
          return again.poll() != null && receiver[0] != null;
        });
    assertEquals(0, again.poll().sockets()[0].read(ByteBuffer.allocate(1)), "it is open");
    awaiting.closeAll();
  }

  @Test
  void aSocketThatIsLostBeforeItTakesOverIsFollowedByTheNextAddress() throws Exception {
    ServerSocketChannel server = keep(ServerSocketChannel.open());
    server.bind(new InetSocketAddress("0.0.0.0", 0)).configureBlocking(false);
    InetAddress home = InetAddress.getByName("127.0.0.2");
    InetAddress other = InetAddress.getByName("127.0.0.3");
    SocketHandle handle =
        new SocketHandle(
            0,
            server.socket().getLocalPort(),
            SocketRequest.newToken(),
            List.of(home, other),
            List.of(8, 8),
            2,
            false,
            false,
            false);
    SocketWatch patient =
        new SocketWatch(Duration.ofSeconds(10), Duration.ofSeconds(8), () -> {}, () -> null);
    toClose.add(patient::close);
    SocketDialer dial = keepDial(new SocketDialer(handle, PLAIN, false, patient, rails, () -> now));
    greets(accept(server, dial), dial);
    DataChannel first = next(server, dial);
    DataChannel second = next(server, dial);
    assertEquals(home, remote(first));
    assertEquals(other, remote(second));
    assertNull(dial.next(0), "a pause");
    now += SECOND;
    DataChannel third = next(server, dial);
    assertEquals(home, remote(third));
    dial.poll().sockets()[0] = third; // it takes over
    assertEquals(home, remote(next(server, dial)));
  }

  /** Its sockets belong to the address that they go to instead. */
  @Test
  void aRailThatCouldNotBeReachedIsNotDialledLater() throws Exception {
    ServerSocketChannel server = server();
    SocketHandle handle =
        new SocketHandle(
            2,
            server.socket().getLocalPort(),
            SocketRequest.newToken(),
            List.of(loopback(), InetAddress.getByName("127.0.0.3")),
            List.of(8, 2),
            2,
            false,
            false,
            false);
    SocketDialer dial = keepDial(new SocketDialer(handle, PLAIN, false, watch, rails, () -> now));
    List<PendingHandshake> hosts = greet(server, dial, 3);
    until(() -> dial.poll() != null);
    for (int place = 0; place < hosts.size(); place++) {
      keep(dial.poll().sockets()[place]);
      assertFalse(dial.prepareReturn(place));
      assertTrue(dial.isAtHome(place), "socket " + place);
      assertEquals(0, SocketRequest.of(hosts.get(place).handshake().request()).address());
    }
    assertEquals(0, dial.shares().length, "both lanes lead to one interface");
  }

  /** Greets some sockets while no time passes; the server's side of each. */
  private List<PendingHandshake> greet(ServerSocketChannel server, SocketDialer dial, int sockets) {
    List<PendingHandshake> greeted = new ArrayList<>();
    List<PendingHandshake> coming = new ArrayList<>();
    until(
        () -> {
          try {
            SocketChannel came = server.accept();
            if (came != null) {
              keep(came).configureBlocking(false);
              coming.add(host(came));
            }
            for (PendingHandshake host : coming) {
              if (host.poll()) {
                greeted.add(host);
              }
            }
          } catch (IOException e) {
            throw new AssertionError(e);
          }
          coming.removeAll(greeted);
          dial.poll();
          return greeted.size() == sockets;
        });
    return greeted;
  }

  /** Greets the last sockets while no time passes; all that the connection has. */
  private DataChannel[] greetLast(ServerSocketChannel server, SocketDialer dial, int sockets) {
    greet(server, dial, sockets);
    until(() -> dial.poll() != null);
    for (DataChannel socket : dial.poll().sockets()) {
      keep(socket);
    }
    return dial.poll().sockets();
  }

  /** Dials two further sockets, the second to another rail. */
  private SocketDialer dialTwoRails(int port, InetAddress further) throws IOException {
    SocketHandle handle =
        new SocketHandle(
            2,
            port,
            SocketRequest.newToken(),
            List.of(loopback(), further),
            List.of(8, 8),
            2,
            false,
            false,
            false);
    return keepDial(new SocketDialer(handle, PLAIN, false, watch, rails, () -> now));
  }

  /** A listener of one address that takes no further connection, as behind a firewall. */
  private ServerSocketChannel full(InetAddress address, int port) throws IOException {
    ServerSocketChannel full = keep(ServerSocketChannel.open());
    full.bind(new InetSocketAddress(address, port), 1);
    for (int s = 0; s < 4; s++) {
      SocketChannel waiting = keep(SocketChannel.open());
      waiting.configureBlocking(false);
      waiting.connect(full.getLocalAddress());
    }
    return full;
  }

  /** Five seconds for each of hundreds of connections would be too many. */
  @Test
  void aRailThatDoesNotAnswerIsWaitedForOnce() throws Exception {
    ServerSocketChannel server = server();
    InetAddress silent = InetAddress.getByName("127.0.0.9");
    full(silent, server.socket().getLocalPort());
    int port = server.socket().getLocalPort();
    SocketDialer first = dialTwoRails(port, silent);
    greet(server, first, 2);
    assertNull(first.poll());
    now += 3 * SECOND;
    SocketDialer beside = dialTwoRails(port, silent);
    greet(server, beside, 2);
    assertNull(beside.poll());
    until(
        () -> {
          now += SECOND / 100;
          assertNull(first.poll());
          return rails.areHopeless(silent);
        });
    for (SocketDialer waiting : List.of(first, beside)) {
      assertEquals(loopback(), remote(greetLast(server, waiting, 1)[2]));
    }
    assertEquals(loopback(), remote(greetLast(server, dialTwoRails(port, silent), 3)[2]));
  }

  /** A host may be busy for a while. */
  @Test
  void aRailThatHasAnsweredIsDialledAgain() throws Exception {
    InetAddress further = InetAddress.getByName("127.0.0.9");
    rails.reached(further);
    rails.failed(further);
    ServerSocketChannel server = keep(ServerSocketChannel.open());
    server.bind(new InetSocketAddress("0.0.0.0", 0)).configureBlocking(false);
    SocketDialer dial = dialTwoRails(server.socket().getLocalPort(), further);
    assertEquals(further, remote(greetLast(server, dial, 3)[2]));
  }

  private static InetAddress remote(DataChannel socket) throws IOException {
    return ((InetSocketAddress) socket.socket().getRemoteAddress()).getAddress();
  }

  private DataChannel next(ServerSocketChannel server, SocketDialer dial) {
    PendingHandshake[] host = new PendingHandshake[1];
    DataChannel[] next = new DataChannel[1];
    until(
        () -> {
          try {
            SocketChannel came = server.accept();
            if (came != null) {
              keep(came).configureBlocking(false);
              host[0] = host(came);
            }
            if (host[0] != null) {
              host[0].poll();
            }
            next[0] = dial.next(0);
            return next[0] != null;
          } catch (IOException e) {
            throw new AssertionError(e);
          }
        });
    return keep(next[0]);
  }

  private SocketPort port(InetAddress address, PortRange numbers) {
    SocketSettings settings =
        new SocketSettings(
            new InterfaceFilter("", ""), numbers, Optional.empty(), Optional.empty());
    SocketPort port = SocketPort.open(PLAIN, settings, List.of(new Nic("lo", address, 1000, "")));
    toClose.add(port::close);
    assertTrue(port.expect());
    return port;
  }

  private SocketPort[] twoOfOneNumber(InetAddress one, InetAddress other) {
    while (true) {
      SocketPort first = port(one, PortRange.ANY);
      try {
        return new SocketPort[] {first, port(other, new PortRange(first.number(), first.number()))};
      } catch (NcclException e) {
        first.close(); // somebody has that number: another one
      }
    }
  }

  private static SocketRails rail(InetAddress... addresses) {
    return new SocketRails(
        List.of(addresses), Collections.nCopies(addresses.length, SocketHandle.FASTEST), 1);
  }

  private SocketListener listener(SocketPort port, InetAddress... addresses) {
    return new SocketListener(port, NO_LANES, THREADS, rail(addresses), false, watch);
  }

  /** Else the receiver would take a proper end for a broken connection. */
  @Test
  void theGoodbyeWaitsForRoom() throws Exception {
    long more = bytesOfACloseWithoutRoom();
    // A sender gives up where the machine stops this thread before it makes room.
    for (int closes = 1; closes < MOST_CLOSES && more == 0; closes++) {
      more = bytesOfACloseWithoutRoom();
    }
    assertEquals(SocketLink.HEADER_BYTES, more);
  }

  /** Bytes that a sender adds to a full socket when it closes, which is then read. */
  private long bytesOfACloseWithoutRoom() throws Exception {
    ServerSocketChannel server = server();
    SocketChannel out = keep(SocketChannel.open(server.getLocalAddress()));
    out.configureBlocking(false);
    SocketChannel[] accepted = new SocketChannel[1];
    until(
        () -> {
          try {
            accepted[0] = server.accept();
            return accepted[0] != null;
          } catch (IOException e) {
            throw new AssertionError(e);
          }
        });
    keep(accepted[0]);
    long filled = 0;
    for (int idle = 0; idle < 100; ) {
      int written = out.write(ByteBuffer.allocate(1 << 16));
      filled += written;
      idle = written == 0 ? idle + 1 : 0;
    }
    SocketSender sender = new SocketSender(new Given(link(out)), NO_LANES, THREADS);
    assertTrue(sender.isConnected());
    Thread closing = new Thread(sender::close);
    closing.start();
    until(() -> closing.getState() == Thread.State.TIMED_WAITING || !closing.isAlive());
    ByteBuffer got = ByteBuffer.allocate(1 << 16);
    long bytes = 0;
    for (int read = accepted[0].read(got); read >= 0; read = accepted[0].read(got.clear())) {
      bytes += read;
    }
    closing.join();
    return bytes - filled;
  }

  private SocketLink link(SocketChannel socket) {
    return new SocketLink(
        new DataChannel[] {DataChannel.plain(socket)}, new NoSpareSockets(), watch, false);
  }

  /** A socket that is there. */
  private record Given(SocketLink link) implements SocketSource {
    @Override
    public SocketLink poll() {
      return link;
    }

    @Override
    public void close() {
      link.end();
      Sockets.close(link.sockets()[0]);
    }
  }

  @Test
  void manyDialersAndStrangersAtOnePort() throws IOException {
    crowd(300, 100, 16);
  }

  @Test
  @Tag("slow")
  void allOfALargeCommunicatorAtOnePort() throws IOException {
    crowd(1023, 600, 256);
  }

  /** All dial at once; strangers were there before, and say nothing or what needs no secret. */
  private void crowd(int dialers, int strangers, int mostStrangers) throws IOException {
    SocketSettings settings = SocketSettings.of(context());
    List<Nic> nics = Nics.find(settings).chosen();
    SocketPort port = SocketPort.open(PLAIN, settings, nics, mostStrangers, System::nanoTime);
    toClose.add(port::close);
    for (int s = 0; s < strangers; s++) {
      SocketChannel stranger = keep(SocketChannel.open());
      stranger.configureBlocking(false);
      stranger.connect(new InetSocketAddress(loopback(), port.number()));
    }
    List<SocketListener> listeners = new ArrayList<>();
    List<SocketDialer> dials = new ArrayList<>();
    for (int d = 0; d < dialers; d++) {
      assertTrue(port.expect());
      SocketListener listener =
          new SocketListener(port, NO_LANES, THREADS, rail(loopback()), false, watch);
      listeners.add(listener);
      dials.add(
          keepDial(
              new SocketDialer(
                  SocketHandle.fromBytes(listener.handle()), PLAIN, false, watch, rails)));
    }
    List<SocketDialer> dialling = new ArrayList<>(dials);
    List<SocketListener> awaiting = new ArrayList<>(listeners);
    until(
        () -> {
          dialling.removeIf(dial -> dial.poll() != null);
          awaiting.removeIf(listener -> listener.accept() != null);
          assertTrue(port.guests() <= mostStrangers + awaiting.size() + 1, "descriptors");
          return dialling.isEmpty() && awaiting.isEmpty();
        });
    for (SocketDialer dial : dials) {
      assertNotNull(dial.poll());
    }
    assertEquals(dialers, dials.size());
    listeners.forEach(SocketListener::closeAll);
  }

  private SocketDialer keepDial(SocketDialer dial) {
    toClose.add(dial::close);
    return dial;
  }
}
