package org.nccl4j.it.net;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.nccl4j.it.net.WiredRanks.until;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Devices;
import org.nccl4j.api.spi.Failovers;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RemoteException;

/** Sockets that are cut in the middle of messages: others take over, without a wrong byte. */
@Timeout(600)
class SocketFailoverTest {
  private static final boolean THOROUGH = Boolean.getBoolean("nccl4j.thorough");
  private static final int SEEDS = THOROUGH ? 200 : 30;
  private static final int SEEDS_OF_LANES = THOROUGH ? 20 : 3;
  private static final int SEEDS_WITH_TLS = THOROUGH ? 40 : 3;
  private static final int SEEDS_OF_LANES_WITH_TLS = THOROUGH ? 20 : 1;
  private static final int SEEDS_OF_CLOSING = THOROUGH ? 10 : 3;
  private static final int ROOM = 400_000;

  /** More than a handshake of TLS has, both ways. */
  private static final int BYTES_OF_TLS = 10_000;

  private static final int UNDER_WAY = 8;
  private static final int[] MOST_BYTES = {64, 5_000, 100_000, ROOM};

  /** A direction's messages that begin and end in order. */
  private static final class Flow {
    private final NetSender sender;
    private final NetReceiver receiver;
    private final DeviceMemory out = Devices.host().allocate((long) UNDER_WAY * ROOM);
    private final DeviceMemory in = Devices.host().allocate((long) UNDER_WAY * ROOM);
    private final NetMemory source;
    private final NetMemory target;
    private final NetRequest[] sends = new NetRequest[UNDER_WAY];
    private final NetRequest[] receives = new NetRequest[UNDER_WAY];
    private final Deque<byte[]> expected = new ArrayDeque<>();
    private final Random random;
    private final int messages;
    private int begun;
    private int sent;
    private int awaited;
    private int received;

    Flow(NetSender sender, NetReceiver receiver, Random random, int messages) {
      this.sender = sender;
      this.receiver = receiver;
      this.random = random;
      this.messages = messages;
      source = sender.register(out);
      target = receiver.register(in);
    }

    /** Takes all steps that can be taken; true once all messages are there. */
    boolean step() {
      if (begun < messages && begun < sent + UNDER_WAY) {
        begin();
      }
      if (awaited < messages && awaited < received + UNDER_WAY) {
        receive((long) awaited % UNDER_WAY * ROOM);
      }
      while (sent < begun && sends[sent % UNDER_WAY].test(null)) {
        // The memory is ours again, so the network must not need it.
        byte[] other = new byte[ROOM];
        out.write((long) sent % UNDER_WAY * ROOM, ByteBuffer.wrap(other));
        sent++;
      }
      int[] size = new int[1];
      while (received < awaited && receives[received % UNDER_WAY].test(size)) {
        byte[] got = new byte[size[0]];
        in.read((long) received % UNDER_WAY * ROOM, ByteBuffer.wrap(got));
        assertArrayEquals(expected.poll(), got, "message " + received);
        received++;
      }
      return received == messages && sent == messages;
    }

    /** Receives what comes, and more, while the sender does nothing. */
    void receiveAlone() {
      if (awaited < received + UNDER_WAY) {
        receive(0);
      }
      while (received < awaited && receives[received % UNDER_WAY].test(null)) {
        received++;
      }
    }

    /** Begins a receive, unless none can begin now. */
    private void receive(long at) {
      NetRequest request =
          receiver.irecv(
              1, new NetMemory[] {target}, new long[] {at}, new int[] {ROOM}, new int[] {5});
      if (request != null) {
        receives[awaited++ % UNDER_WAY] = request;
      }
    }

    private void begin() {
      byte[] data = new byte[random.nextInt(MOST_BYTES[random.nextInt(MOST_BYTES.length)])];
      random.nextBytes(data);
      long at = (long) begun % UNDER_WAY * ROOM;
      out.write(at, ByteBuffer.wrap(data));
      NetRequest send = sender.isend(source, at, data.length, 5);
      if (send != null) {
        expected.add(data);
        sends[begun++ % UNDER_WAY] = send;
      }
    }

    void close() {
      out.close();
      in.close();
    }
  }

  /** Two ranks and their messages, of which the first's sockets are cut. */
  private static final class Wired implements AutoCloseable {
    final CuttingWire wire;
    private final WiredRanks<CuttingWire> ranks;
    private final Flow[] flows;

    Wired(
        Map<String, String> settings,
        boolean pair,
        int messages,
        Random random,
        boolean resets,
        Long... cutsAt)
        throws IOException {
      ranks =
          new WiredRanks<>(
              settings, pair, target -> new CuttingWire(target, random, resets, cutsAt));
      wire = ranks.wire;
      flows =
          new Flow[] {
            new Flow(ranks.senders[0], ranks.receivers[1], random, messages),
            new Flow(ranks.senders[1], ranks.receivers[0], random, messages)
          };
    }

    /** Moves all messages both ways. */
    void run() {
      ranks.closeListeners();
      until(() -> flows[0].step() & flows[1].step());
    }

    @Override
    public void close() throws IOException {
      ranks.close();
      for (Flow flow : flows) {
        flow.close();
      }
    }
  }

  private static Map<String, String> settings(int threads, boolean sums, String bound) {
    Map<String, String> settings = new HashMap<>();
    settings.put("NCCL_SOCKET_NTHREADS", Integer.toString(threads));
    settings.put("NCCL4J_NET_CHECKSUM", sums ? "crc32c" : "none");
    settings.put("NCCL4J_NET_FAILOVER_TIMEOUT", bound);
    return settings;
  }

  /** A cut in the greeting is one of connecting, which is tested elsewhere. */
  private static Long[] cuts(Random random, int number) {
    return LongStream.generate(() -> 200 + random.nextInt(600_000))
        .limit(number)
        .boxed()
        .toArray(Long[]::new);
  }

  /** Failovers that the senders have counted, and the cuts that there were. */
  private record Moved(long failovers, int cuts) {}

  private static Moved move(long seed, int threads, boolean pair) throws Exception {
    Random random = new Random(seed);
    Long[] cutsAt = cuts(random, 1 + random.nextInt(6));
    return move(seed, random, pair, settings(threads, random.nextBoolean(), "60s"), cutsAt);
  }

  /** Cuts connections in the greeting of TLS too, but for the first ones. */
  private static int moveByTls(long seed, int threads, boolean pair) throws Exception {
    Random random = new Random(seed);
    Long[] cutsAt = cuts(random, 2 + threads + random.nextInt(6));
    for (int cut = 0; cut < cutsAt.length; cut++) {
      boolean greeting = cut > threads && random.nextBoolean();
      cutsAt[cut] = greeting ? 200 + random.nextInt(BYTES_OF_TLS) : BYTES_OF_TLS + cutsAt[cut];
    }
    Map<String, String> settings = settings(threads, random.nextInt(4) == 0, "60s");
    return move(seed, random, pair, Certificates.with(settings), cutsAt).cuts;
  }

  private static Moved move(
      long seed, Random random, boolean pair, Map<String, String> settings, Long... cutsAt)
      throws Exception {
    try (Wired wired = new Wired(settings, pair, 24, random, random.nextBoolean(), cutsAt)) {
      wired.run();
      Failovers counted = wired.ranks.senders[0].failovers();
      assertTrue(counted.bytesAgain() >= 0, counted.toString());
      assertEquals(counted.count() > 0, counted.path().contains(" 127.0.0.1 to 127.0.0.1"));
      assertEquals(counted.count() > 0, counted.lastMillis() > 0);
      return new Moved(counted.count(), wired.wire.cuts());
    } catch (AssertionError | RuntimeException e) {
      throw new AssertionError("seed " + seed, e);
    }
  }

  @Test
  void anotherSocketTakesOver() throws Exception {
    int cuts = 0;
    long failovers = 0;
    for (int seed = 0; seed < SEEDS; seed++) {
      Moved moved = move(seed, 0, seed % 2 == 0);
      cuts += moved.cuts;
      failovers += moved.failovers;
      assertTrue(moved.failovers <= moved.cuts, "seed " + seed + ": " + moved);
    }
    assertTrue(cuts > SEEDS, cuts + " cuts");
    assertTrue(failovers > SEEDS, failovers + " failovers after " + cuts + " cuts");
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 3})
  void anotherSocketTakesOverFromOneOfSeveral(int threads) throws Exception {
    int cuts = 0;
    for (int seed = 0; seed < SEEDS_OF_LANES; seed++) {
      cuts += move(SEEDS + seed, threads, false).cuts;
    }
    assertTrue(cuts > SEEDS_OF_LANES, cuts + " cuts");
  }

  @Test
  void anotherSocketWithTlsTakesOver() throws Exception {
    int cuts = 0;
    for (int seed = 0; seed < SEEDS_WITH_TLS; seed++) {
      cuts += moveByTls(seed, 0, seed % 2 == 0);
    }
    assertTrue(cuts > SEEDS_WITH_TLS, cuts + " cuts");
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 3})
  void anotherSocketWithTlsTakesOverFromOneOfSeveral(int threads) throws Exception {
    int cuts = 0;
    for (int seed = 0; seed < SEEDS_OF_LANES_WITH_TLS; seed++) {
      cuts += moveByTls(SEEDS + seed, threads, false);
    }
    assertTrue(cuts > SEEDS_OF_LANES_WITH_TLS, cuts + " cuts");
  }

  /** As when its process has died: its port refuses. */
  @Test
  void aPeerThatIsGoneIsAnErrorAtOnce() throws Exception {
    Random random = new Random(1);
    try (Wired wired = new Wired(settings(0, false, "300s"), false, 1000, random, true)) {
      until(() -> wired.flows[0].step() | wired.flows[0].received > 20);
      wired.ranks.far.close();
      wired.wire.close();
      long begin = System.nanoTime();
      RemoteException error =
          assertThrows(RemoteException.class, () -> until(() -> wired.flows[0].step()));
      assertEquals(ErrorId.CONNECTION, error.id());
      assertTrue(error.problem().contains("Connection refused"), error.problem());
      assertTrue(System.nanoTime() - begin < TimeUnit.SECONDS.toNanos(250), "the bound has passed");
    }
  }

  /** A receiver whose sender does not dial again. */
  @Test
  void aPeerThatDoesNotDialAgainIsAnErrorByTheBound() throws Exception {
    Random random = new Random(2);
    try (Wired wired = new Wired(settings(0, false, "1s"), false, 1000, random, true)) {
      until(() -> wired.flows[0].step() | wired.flows[0].received > 20);
      wired.wire.close();
      RemoteException error =
          assertThrows(
              RemoteException.class,
              () ->
                  until(
                      () -> {
                        wired.flows[0].receiveAlone();
                        return false;
                      }));
      assertTrue(error.problem().contains("within 1 s"), error.problem());
    }
  }

  @Test
  void withoutFailoverAnyCutIsAnError() throws Exception {
    Random random = new Random(3);
    try (Wired wired = new Wired(settings(0, false, "0"), false, 1000, random, true, 300_000L)) {
      RemoteException error = assertThrows(RemoteException.class, wired::run);
      assertEquals(ErrorId.CONNECTION, error.id());
    }
  }

  /** Both ends close while sockets are broken and dialled again. */
  @ParameterizedTest
  @ValueSource(ints = {0, 2})
  void closingEndsTheDialling(int threads) throws Exception {
    for (int seed = 0; seed < SEEDS_OF_CLOSING; seed++) {
      Random random = new Random(seed);
      Wired wired =
          new Wired(
              settings(threads, false, "60s"), false, 100_000, random, true, 250_000L, 250_000L);
      until(
          () -> {
            wired.flows[0].step();
            return wired.wire.cuts() > 0;
          });
      wired.close();
    }
  }
}
