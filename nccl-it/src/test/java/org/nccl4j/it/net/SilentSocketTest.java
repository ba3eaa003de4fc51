package org.nccl4j.it.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.nccl4j.it.net.WiredRanks.until;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Devices;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.it.api.LongerDeadline;
import org.nccl4j.it.api.RandomBytes;

/** Sockets whose bytes vanish though nothing breaks: others take over, without a wrong byte. */
@Timeout(600)
class SilentSocketTest {
  private static final int SEEDS = Integer.getInteger("nccl4j.silent.seeds", 1);
  private static final int ROOM = 200_000;
  private static final int MESSAGES = 16;

  /** Time within which the rank at the other end has to answer. */
  private static final Duration SILENCE = Duration.ofMillis(2500);

  /** More than a greeting, by TLS too. */
  private static final int GREETING = 12_000;

  /** A direction's messages, one at a time. */
  private static final class Flow {
    private final NetSender sender;
    private final NetReceiver receiver;
    private final Random random;
    private final DeviceMemory out = Devices.host().allocate(ROOM);
    private final DeviceMemory in = Devices.host().allocate(ROOM);
    private final NetMemory source;
    private final NetMemory target;
    private final Queue<byte[]> expected = new ArrayDeque<>();
    private NetRequest send;
    private NetRequest receive;
    private int sent;
    private int received;

    Flow(NetSender sender, NetReceiver receiver, Random random) {
      this.sender = sender;
      this.receiver = receiver;
      this.random = random;
      source = sender.register(out);
      target = receiver.register(in);
    }

    /** Takes the sender's steps; true once nothing is under way. */
    boolean send() {
      if (send == null) {
        begin(random.nextInt(random.nextBoolean() ? 5_000 : ROOM));
      }
      return isSent();
    }

    /** Begins to send a message, if it may. */
    void begin(int bytes) {
      byte[] data = RandomBytes.of(random.nextLong(), bytes);
      out.write(0, ByteBuffer.wrap(data));
      send = sender.isend(source, 0, data.length, 5);
      if (send != null) {
        expected.add(data);
        sent++;
      }
    }

    boolean isSent() {
      return send != null && send.test(null);
    }

    /** Takes the receiver's steps. */
    void receive() {
      if (receive == null) {
        receive =
            receiver.irecv(
                1, new NetMemory[] {target}, new long[] {0}, new int[] {ROOM}, new int[] {5});
      }
      int[] size = new int[1];
      if (receive != null && receive.test(size)) {
        byte[] got = new byte[size[0]];
        in.read(0, ByteBuffer.wrap(got));
        assertEquals(-1, Arrays.mismatch(expected.poll(), got), "message " + received);
        received++;
        receive = null;
      }
    }

    /**
     * Takes all steps; true once all messages have come. Sends no message that nobody receives: the
     * other direction's acknowledgements would wait behind it for ever.
     */
    boolean step() {
      if ((sent < MESSAGES || send != null) && send()) {
        send = null;
      }
      if (received < MESSAGES || receive != null) {
        receive();
      }
      return received >= MESSAGES;
    }

    void close() {
      out.close();
      in.close();
    }

    @Override
    public String toString() {
      return "%d messages sent, %d received, bytes under way %s"
          .formatted(sent, received, expected.stream().map(each -> each.length).toList());
    }
  }

  /** Two ranks and their messages, of which the first's go silent. */
  private static final class Ranks implements AutoCloseable {
    final SilentWire wire;
    final Flow[] flows;
    private final WiredRanks<SilentWire> wired;

    Ranks(
        Map<String, String> settings,
        boolean pair,
        Random random,
        SilentWire.Direction direction,
        Long... silentAt)
        throws IOException {
      wired =
          new WiredRanks<>(
              settings, pair, target -> new SilentWire(target, random, direction, silentAt));
      wire = wired.wire;
      flows =
          new Flow[] {
            new Flow(wired.senders[0], wired.receivers[1], random),
            new Flow(wired.senders[1], wired.receivers[0], random)
          };
      wired.closeListeners();
    }

    long failovers() {
      return wired.senders[0].failovers().count();
    }

    @Override
    public void close() throws IOException {
      wired.close();
      for (Flow flow : flows) {
        flow.close();
      }
    }
  }

  private static Map<String, String> settings(int threads, Duration silence) {
    return settings(threads, silence.toMillis() + "ms");
  }

  private static Map<String, String> settings(int threads, String silence) {
    Map<String, String> settings = new HashMap<>();
    settings.put("NCCL_SOCKET_NTHREADS", Integer.toString(threads));
    settings.put("NCCL4J_NET_FAILOVER_TIMEOUT", "60s");
    settings.put("NCCL4J_NET_SILENCE_TIMEOUT", silence);
    return settings;
  }

  private static void move(
      long seed,
      Map<String, String> settings,
      boolean pair,
      SilentWire.Direction direction,
      int atLeast)
      throws Exception {
    Random random = new Random(seed);
    int threads = Integer.parseInt(settings.get("NCCL_SOCKET_NTHREADS"));
    Long[] silentAt = new Long[1 + threads];
    for (int place = 0; place < silentAt.length; place++) {
      silentAt[place] = (long) atLeast + random.nextInt(100_000);
    }
    try (Ranks ranks = new Ranks(settings, pair, random, direction, silentAt)) {
      until(() -> ranks.flows[0].step() & ranks.flows[1].step());
      assertTrue(ranks.wire.silences() > 0, "nothing has gone silent");
      assertTrue(ranks.failovers() > 0, "nothing has taken over");
    } catch (AssertionError | RuntimeException e) {
      throw new AssertionError("seed %d, %s".formatted(seed, direction), e);
    }
  }

  /** Sockets of a busy machine may be silent for longer than the bound, and never get ahead. */
  private static void moveSoon(
      long seed,
      Function<Duration, Map<String, String>> settings,
      boolean pair,
      SilentWire.Direction direction,
      int atLeast)
      throws Throwable {
    LongerDeadline.retry(
        Duration.ofMillis(200),
        silence -> move(seed, settings.apply(silence), pair, direction, atLeast));
  }

  @ParameterizedTest
  @EnumSource(SilentWire.Direction.class)
  void anotherSocketTakesOver(SilentWire.Direction direction) throws Throwable {
    for (int seed = 0; seed < SEEDS; seed++) {
      boolean pair = (seed + direction.ordinal()) % 2 == 0;
      moveSoon(seed, silence -> settings(0, silence), pair, direction, 300);
    }
  }

  @Test
  void anotherSocketTakesOverFromOneOfSeveral() throws Throwable {
    for (int seed = 0; seed < SEEDS; seed++) {
      moveSoon(seed, silence -> settings(2, silence), false, SilentWire.Direction.BOTH, 300);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 2})
  void anotherSocketWithTlsTakesOver(int threads) throws Throwable {
    moveSoon(
        7,
        silence -> Certificates.with(settings(threads, silence)),
        threads == 0,
        SilentWire.Direction.BOTH,
        GREETING);
  }

  /** An idle connection is not looked at: one that went silent is replaced once it is used. */
  @Test
  void aSocketThatWentSilentWhileItWasIdleIsReplaced() throws Throwable {
    LongerDeadline.retry(Duration.ofMillis(200), SilentSocketTest::assertReplacedAfterRest);
  }

  private static void assertReplacedAfterRest(Duration silence) throws Exception {
    Random random = new Random(3);
    try (Ranks ranks =
        new Ranks(settings(0, silence), true, random, SilentWire.Direction.BOTH, 400L)) {
      awaitRest();
      until(() -> ranks.flows[0].step() & ranks.flows[1].step());
      assertTrue(ranks.failovers() > 0, "nothing has taken over");
    }
  }

  /** Waits until the watches of both ranks rest. */
  private static void awaitRest() {
    until(
        () ->
            Thread.getAllStackTraces().entrySet().stream()
                    .filter(thread -> thread.getKey().getName().equals("nccl4j-socket-watch"))
                    .filter(
                        thread ->
                            Stream.of(thread.getValue())
                                .anyMatch(frame -> frame.getMethodName().equals("rest")))
                    .count()
                >= 2);
  }

  /** A watch that rests is woken by a question, answers it, and rests again. */
  @Test
  void aRankThatRestsAnswers() throws Throwable {
    LongerDeadline.retry(SILENCE, SilentSocketTest::assertAnswersWhileItRests);
  }

  private static void assertAnswersWhileItRests(Duration silence) throws Exception {
    Random random = new Random(8);
    try (Ranks ranks = new Ranks(settings(0, silence), true, random, SilentWire.Direction.BOTH)) {
      for (int round = 0; round < 2; round++) {
        awaitRest();
        Flow sends = ranks.flows[round];
        until(
            () -> {
              sends.begin(ROOM);
              return sends.send != null;
            });
        long end = System.nanoTime() + 2 * silence.toNanos();
        while (System.nanoTime() - end <= 0) {
          sends.isSent();
          LockSupport.parkNanos(1_000_000);
        }
        until(
            () -> {
              sends.receive();
              return sends.received == 1 & sends.isSent();
            });
        assertEquals(0, ranks.failovers());
      }
    }
  }

  /**
   * Two directions share a socket: what one of them does not receive holds up the acknowledgements
   * of the other, and nothing else. All goes on once it is received.
   */
  @Test
  void acknowledgementsWaitBehindAMessageThatNobodyReceives() throws Exception {
    Random random = new Random(5);
    try (Ranks ranks = new Ranks(settings(0, "60s"), true, random, SilentWire.Direction.BOTH)) {
      Flow first = ranks.flows[0];
      Flow second = ranks.flows[1];
      first.begin(1_000);
      until(first::isSent);
      until(
          () -> {
            if (second.send == null) {
              second.begin(ROOM);
            }
            second.isSent();
            second.receive();
            return second.received == 1;
          });
      long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(300);
      until(
          () -> {
            assertFalse(second.isSent(), "acknowledged through a message that was not read");
            LockSupport.parkNanos(1_000_000);
            return System.nanoTime() - end > 0;
          });
      until(() -> first.step() & second.step());
    }
  }

  /** A receiver that reads nothing for twice the bound keeps its sockets. */
  @ParameterizedTest
  @ValueSource(ints = {0, 2})
  void aSlowReceiverKeepsItsSocket(int threads) throws Throwable {
    LongerDeadline.retry(SILENCE, silence -> assertKeepsItsSocket(threads, silence));
  }

  private static void assertKeepsItsSocket(int threads, Duration silence) throws Exception {
    Random random = new Random(4);
    try (Ranks ranks =
        new Ranks(settings(threads, silence), threads == 0, random, SilentWire.Direction.BOTH)) {
      long end = System.nanoTime() + 2 * silence.toNanos();
      while (System.nanoTime() - end <= 0) {
        ranks.flows[0].send();
        LockSupport.parkNanos(1_000_000);
      }
      until(() -> ranks.flows[0].step() & ranks.flows[1].step());
      assertEquals(0, ranks.failovers());
    }
  }
}
