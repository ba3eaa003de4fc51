package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.bootstrap.connection.Connection;
import org.nccl4j.api.bootstrap.connection.ConnectionDialer;
import org.nccl4j.api.bootstrap.connection.ConnectionListener;
import org.nccl4j.api.bootstrap.connection.EventLoop;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageWriter;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.Handshake.Service;
import org.nccl4j.api.wire.ListeningSocket;
import org.nccl4j.api.wire.PortRange;
import org.nccl4j.api.wire.tls.PeerCredentials;
import org.nccl4j.device.os.KernelRandom;

/** Strangers at the bootstrap's ports: they are turned away and disturb nobody. */
class HostileConnectionsTest {
  private static final int ATTACKS = 2000;

  /** Of roots and ranks: the attackers come first, and take long on a busy machine. */
  private static final Duration PATIENCE = Duration.ofSeconds(300);

  private final LeftBehind.Earlier earlier = LeftBehind.Earlier.now();

  @AfterEach
  void nothingIsLeft() throws InterruptedException {
    earlier.nothingElse();
  }

  @Test
  void garbageOnTheRootsPortWhileACommunicatorForms() {
    BootstrapId id = BootstrapRoot.create(Ranks.LOOPBACK, PATIENCE);
    int port = id.addresses().get(0).getPort();
    AtomicBoolean attacked = new AtomicBoolean();
    long seed = seed();
    List<Ranks.Ended<Integer>> all =
        Ranks.run(
            6,
            index -> {
              if (index == 4) {
                attack(port, Service.ROOT, new Random(seed), ATTACKS);
                attacked.set(true);
                return 0;
              }
              if (index == 5) {
                return slowLoris(port, 400, attacked);
              }
              awaitHalf(index, attacked);
              try (Bootstrap mine = TcpBootstrap.join(Ranks.request(id, 4, index, PATIENCE))) {
                return mine.allGather(new byte[index]).size();
              }
            });
    for (int rank = 0; rank < 4; rank++) {
      assertEquals(4, all.get(rank).get());
    }
    all.forEach(Ranks.Ended::get);
  }

  @Test
  void garbageOnTheRanksPortsWhileACommunicatorForms() {
    BootstrapId id = BootstrapRoot.create(Ranks.LOOPBACK, PATIENCE);
    AtomicBoolean attacked = new AtomicBoolean();
    Random random = new Random(seed());
    List<Ranks.Ended<Integer>> all =
        Ranks.run(
            5,
            index -> {
              if (index == 4) {
                List<Integer> ports = LeftBehind.listeningPorts();
                while (ports.size() < 2) {
                  ports = LeftBehind.listeningPorts();
                }
                for (int port : ports) {
                  attack(port, Service.RING, random, ATTACKS / 2);
                }
                attacked.set(true);
                return 0;
              }
              awaitHalf(index, attacked);
              try (Bootstrap mine = TcpBootstrap.join(Ranks.request(id, 4, index, PATIENCE))) {
                return mine.allGather(new byte[index]).size();
              }
            });
    for (int rank = 0; rank < 4; rank++) {
      assertEquals(4, all.get(rank).get());
    }
    all.forEach(Ranks.Ended::get);
  }

  @Test
  void garbageOnAPortOfTheRing() throws Exception {
    byte[] secret = KernelRandom.bytes(16);
    EventLoop loop = EventLoop.acquire();
    BlockingQueue<FrameType> accepted = new LinkedBlockingQueue<>();
    ServerSocketChannel socket =
        ListeningSocket.open("a test", InetAddress.getLoopbackAddress(), PortRange.ANY);
    int port = ListeningSocket.port(socket);
    ConnectionListener listener =
        new ConnectionListener(
            loop,
            socket,
            Service.RING,
            PeerCredentials.in(secret),
            Duration.ofMillis(200),
            (connection, type, first) -> {
              accepted.add(type);
              connection.close();
            });
    loop.execute(listener::start);
    attack(port, Service.RING, new Random(seed()), ATTACKS);
    assertTrue(accepted.isEmpty(), accepted.toString());
    BlockingQueue<Object> outcome = new LinkedBlockingQueue<>();
    ConnectionDialer dialer =
        new ConnectionDialer(
            loop,
            List.of(new InetSocketAddress(InetAddress.getLoopbackAddress(), port)),
            Service.RING,
            PeerCredentials.in(secret),
            1000, // the listener's patience may end before this machine has gone on
            new ConnectionDialer.Outcome() {
              @Override
              public void reached(Connection connection) {
                connection.finish(new MessageWriter(FrameType.RING_HELLO).done());
                outcome.add(connection);
              }

              @Override
              public void failed(String reasons) {
                outcome.add(reasons);
              }
            });
    loop.execute(() -> dialer.start(PATIENCE));
    assertTrue(Ranks.next(outcome) instanceof Connection);
    assertEquals(FrameType.RING_HELLO, Ranks.next(accepted));
    loop.execute(listener::close);
    loop.release();
  }

  @Test
  void aConnectionThatDoesNotProveItselfInTimeIsClosed() throws Exception {
    EventLoop loop = EventLoop.acquire();
    ServerSocketChannel socket =
        ListeningSocket.open("a test", InetAddress.getLoopbackAddress(), PortRange.ANY);
    ConnectionListener listener =
        new ConnectionListener(
            loop,
            socket,
            Service.RING,
            PeerCredentials.in(new byte[16]),
            Duration.ofMillis(50),
            (connection, type, first) -> connection.close());
    loop.execute(listener::start);
    try (Socket silent = connect(ListeningSocket.port(socket));
        Socket half = connect(ListeningSocket.port(socket))) {
      byte[] opening = Handshake.client(new byte[16], Service.RING).opening();
      writeQuietly(half, Arrays.copyOf(opening, 20));
      assertEnds(silent.getInputStream());
      assertEnds(half.getInputStream());
    }
    loop.execute(listener::close);
    loop.release();
  }

  @Test
  void aRecordedJoinCannotBePlayedAgain() throws Exception {
    BootstrapId id = BootstrapRoot.create(Ranks.LOOPBACK, PATIENCE);
    int port = id.addresses().get(0).getPort();
    Handshake handshake = Handshake.client(id.secret(), Service.ROOT);
    byte[] greeting = handshake.opening();
    byte[] proof;
    try (Socket first = connect(port)) {
      first.getOutputStream().write(greeting);
      proof = handshake.step(first.getInputStream().readNBytes(Handshake.HELLO_BYTES));
      first.getOutputStream().write(proof);
      handshake.step(first.getInputStream().readNBytes(Handshake.PROOF_BYTES));
      assertTrue(handshake.done());
    }
    try (Socket again = connect(port)) {
      again.getOutputStream().write(greeting);
      InputStream in = again.getInputStream();
      assertEquals(Handshake.HELLO_BYTES, in.readNBytes(Handshake.HELLO_BYTES).length);
      again.getOutputStream().write(proof);
      assertEquals(-1, in.read());
    }
    Ranks.run(
            2,
            rank -> {
              try (Bootstrap mine = TcpBootstrap.join(Ranks.request(id, 2, rank, PATIENCE))) {
                mine.barrier();
                return rank;
              }
            })
        .forEach(Ranks.Ended::get);
  }

  @Test
  void whoKnowsTheSecretAndSendsNonsenseIsTurnedAwayToo() throws Exception {
    BootstrapId id = BootstrapRoot.create(Ranks.LOOPBACK, PATIENCE);
    Random random = new Random(seed());
    int port = id.addresses().get(0).getPort();
    for (int i = 0; i < 200; i++) {
      try (Socket socket = connect(port)) {
        Handshake handshake = Handshake.client(id.secret(), Service.ROOT);
        socket.getOutputStream().write(handshake.opening());
        InputStream in = socket.getInputStream();
        byte[] answer = handshake.step(in.readNBytes(Handshake.HELLO_BYTES));
        socket.getOutputStream().write(answer);
        in.readNBytes(Handshake.PROOF_BYTES);
        ByteBuffer header = ByteBuffer.allocate(5);
        header.putInt(i % 2 == 0 ? random.nextInt() : 10).put((byte) random.nextInt(20));
        byte[] body = new byte[10];
        random.nextBytes(body);
        socket.getOutputStream().write(header.array());
        writeQuietly(socket, body);
        if (header.get(4) != FrameType.HELLO.ordinal() || i % 2 == 1) {
          assertEnds(in);
        }
      }
    }
    Ranks.run(
            2,
            rank -> {
              try (Bootstrap mine = TcpBootstrap.join(Ranks.request(id, 2, rank, PATIENCE))) {
                mine.barrier();
                return rank;
              }
            })
        .forEach(Ranks.Ended::get);
  }

  /** Opens connections that begin like a rank's and go wrong somewhere, or like nothing at all. */
  private static void attack(int port, Service service, Random random, int times) {
    for (int i = 0; i < times; i++) {
      try (Socket socket = connect(port)) {
        byte[] bytes = Handshake.client(new byte[16], service).opening();
        switch (random.nextInt(5)) {
          case 0 -> bytes = new byte[random.nextInt(2000)];
          case 1 -> random.nextBytes(bytes);
          case 2 -> bytes[random.nextInt(bytes.length)] ^= (byte) (1 + random.nextInt(255));
          case 3 -> bytes = "GET / HTTP/1.1\r\nHost: root\r\nAccept: */*\r\n\r\n".getBytes("UTF-8");
          default -> bytes = Arrays.copyOf(bytes, bytes.length + random.nextInt(4096));
        }
        socket.getOutputStream().write(bytes);
        if (random.nextBoolean()) {
          socket.setSoLinger(true, 0);
        }
      } catch (IOException e) {
        // Being cut off while still talking is what a stranger is meant to get.
        continue;
      }
    }
  }

  /** Holds many connections open, each dripping, until the others are done. */
  private static int slowLoris(int port, int count, AtomicBoolean until) {
    List<Socket> held = new ArrayList<>();
    byte[] greeting = Handshake.client(new byte[16], Service.ROOT).opening();
    int rounds = 0;
    try {
      while (!until.get() || held.size() < count) {
        if (held.size() < count) {
          held.add(connect(port));
        }
        writeQuietly(held.get(rounds % held.size()), new byte[] {greeting[rounds % 8]});
        rounds++;
      }
    } catch (IOException e) {
      return rounds;
    } finally {
      for (Socket each : held) {
        try {
          each.close();
        } catch (IOException e) {
          rounds++;
        }
      }
    }
    return rounds;
  }

  /** Rank 3 comes only after the attack, so that the root is forming throughout it. */
  private static void awaitHalf(int rank, AtomicBoolean attacked) {
    while (rank == 3 && !attacked.get()) {
      Thread.yield();
    }
  }

  private static Socket connect(int port) throws IOException {
    Socket socket = new Socket();
    int millis = (int) PATIENCE.toMillis();
    socket.setSoTimeout(millis);
    socket.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), millis);
    return socket;
  }

  private static void writeQuietly(Socket socket, byte[] bytes) {
    try {
      socket.getOutputStream().write(bytes);
    } catch (IOException e) {
      // It was cut off, as it should be.
      return;
    }
  }

  private static void assertEnds(InputStream in) {
    try {
      assertEquals(-1, in.read());
    } catch (IOException reset) {
      assertTrue(reset.getMessage().contains("reset"), reset.toString());
    }
  }

  private static long seed() {
    long seed = Long.getLong("nccl4j.seed", 1);
    System.out.println("-Dnccl4j.seed=" + seed);
    return seed;
  }
}
