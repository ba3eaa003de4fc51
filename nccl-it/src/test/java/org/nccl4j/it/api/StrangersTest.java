package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.it.net.OwnPorts;
import org.nccl4j.it.net.Refusals;

/** Strangers on every port that is open while communicators form, work and end. */
@Timeout(600)
class StrangersTest {
  private static final int ROUNDS = 2;

  /** On the ports that are open while a communicator forms; then on those while it works. */
  private static final int ATTACKS = 600;

  private static final int IN_TURN = 50;
  private static final int HELD = 300;
  private static final List<String> BEGINNINGS =
      List.of("NCCL4JWR\1", "NCCL4JWR\2", "NCCL4J", "GET / HTTP/1.1\r\n\r\n", "\26\3\1\2\0", "");

  /** Goes over the ports again and again; talks nonsense, or drips and stays. */
  private static final class Stranger {
    private final Set<Integer> others;
    private final Random random;
    private final ArrayDeque<SocketChannel> held = new ArrayDeque<>();
    private final Set<Integer> visited = new TreeSet<>();
    private volatile int attacks;
    private volatile boolean enough;

    Stranger(Set<Integer> others, long seed) {
      this.others = others;
      random = new Random(seed);
    }

    Integer attack() throws IOException {
      while (!enough) {
        for (int port : OwnPorts.listening()) {
          for (int n = 0; n < IN_TURN && !others.contains(port); n++) {
            visit(port);
          }
        }
      }
      for (SocketChannel each : held) {
        each.close();
      }
      return visited.size();
    }

    private void visit(int port) throws IOException {
      SocketChannel channel = SocketChannel.open();
      try {
        channel.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
        channel.configureBlocking(false);
        attacks++;
        visited.add(port);
        if (random.nextInt(8) == 0) {
          held.add(channel);
          channel = held.size() > HELD ? held.poll() : SocketChannel.open();
        } else {
          channel.write(ByteBuffer.wrap(nonsense()));
        }
        drip();
      } catch (IOException e) {
        // The port has been closed meanwhile, or closes while it is talked to.
        return;
      } finally {
        channel.close();
      }
    }

    /** A byte more on the connection that has waited longest. */
    private void drip() throws IOException {
      SocketChannel slow = held.poll();
      if (slow != null) {
        held.add(slow);
        slow.write(ByteBuffer.wrap(new byte[] {(byte) random.nextInt()}));
      }
    }

    private byte[] nonsense() {
      byte[] begin =
          BEGINNINGS.get(random.nextInt(BEGINNINGS.size())).getBytes(StandardCharsets.ISO_8859_1);
      byte[] all = new byte[begin.length + random.nextInt(200)];
      random.nextBytes(all);
      System.arraycopy(begin, 0, all, 0, begin.length);
      return all;
    }
  }

  @Test
  void thousandsDisturbNobodyAndAreLoggedOnce() throws Exception {
    long seed = Long.getLong("nccl4j.seed", 1);
    System.out.println("-Dnccl4j.seed=" + seed);
    Stranger stranger = new Stranger(OwnPorts.listening(), seed);
    FutureTask<Integer> attack = new FutureTask<>(stranger::attack);
    Thread thread = new Thread(attack, "stranger");
    thread.setDaemon(true);
    thread.start();
    try {
      for (int round = 0; round < ROUNDS; round++) {
        int before = stranger.attacks;
        try (Refusals refusals = new Refusals();
            Ranks ranks = whileAttacked(stranger)) {
          assertTrue(stranger.attacks - before >= ATTACKS, "the stranger came too late");
          int target = stranger.attacks + ATTACKS;
          while (stranger.attacks < target) {
            assertFalse(attack.isDone(), "the stranger has stopped");
            OperationsTest.everyOperation(ranks, 100);
          }
          List<String> ports = refusals.ports(); // which another round may have again
          assertFalse(ports.isEmpty());
          assertEquals(ports.stream().distinct().count(), ports.size(), ports.toString());
        }
      }
      stranger.enough = true;
      int visited = attack.get(300, TimeUnit.SECONDS);
      assertTrue(visited >= 2 * ROUNDS, visited + " ports");
    } finally {
      stranger.enough = true;
    }
  }

  /** As a rank does that has reached the root by another of its addresses. */
  @Test
  void whoOnlyGoesAwayIsNotWarnedOf() throws Exception {
    Set<Integer> before = OwnPorts.listening();
    UniqueId id = UniqueId.create(CommunicatorConfig.defaults().with("NCCL_SOCKET_IFNAME", "lo"));
    Set<Integer> ports = OwnPorts.listening();
    ports.removeAll(before);
    InetSocketAddress root =
        new InetSocketAddress(InetAddress.getLoopbackAddress(), ports.iterator().next());
    try (Refusals refusals = new Refusals()) {
      SocketChannel.open(root).close();
      try (SocketChannel nonsense = SocketChannel.open(root)) {
        nonsense.write(ByteBuffer.wrap(BEGINNINGS.get(3).getBytes(StandardCharsets.ISO_8859_1)));
        assertEquals(-1, nonsense.read(ByteBuffer.allocate(1 << 10)), "refused");
      } catch (IOException reset) {
        assertTrue(reset.getMessage().contains("reset"), reset.toString());
      }
      Communicator.initRank(1, id, 0, Devices.host()).close();
      assertEquals(1, refusals.reasons().size(), refusals.reasons().toString());
      assertFalse(refusals.reasons().get(0).contains("went away"), refusals.reasons().toString());
    }
  }

  /** Three ranks, as of three hosts, of which the last comes after many strangers. */
  private static Ranks whileAttacked(Stranger stranger) throws Exception {
    UniqueId id = UniqueId.create();
    int target = stranger.attacks + ATTACKS;
    List<CompletableFuture<Communicator>> joining = new ArrayList<>();
    for (int rank = 0; rank < 3; rank++) {
      CommunicatorConfig config =
          CommunicatorConfig.defaults()
              .withOperationTimeout(Duration.ofSeconds(60))
              .withTransports(List.of("NET"))
              .with("NCCL_SOCKET_IFNAME", "lo")
              .with("NCCL_HOSTID", "host" + rank);
      long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
      while (rank == 2 && stranger.attacks < target && System.nanoTime() < end) {
        Thread.onSpinWait();
      }
      joining.add(Communicator.initRankAsync(3, id, rank, Devices.host(), config));
    }
    List<Communicator> made = new ArrayList<>();
    for (CompletableFuture<Communicator> each : joining) {
      made.add(each.get(300, TimeUnit.SECONDS));
    }
    return new Ranks(made);
  }
}
