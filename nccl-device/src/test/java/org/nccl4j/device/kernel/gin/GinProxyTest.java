package org.nccl4j.device.kernel.gin;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.bind.NativeMemory;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.DeviceHeaders;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.kernel.window.HostGinDevice;
import org.nccl4j.device.kernel.RmaMessage;
import org.nccl4j.device.kernel.RmaSpace;

/** Two proxies whose connections are the same memory, given turns by the test alone. */
@Timeout(600)
class GinProxyTest {
  private static final ConnectionLayout LAYOUT = new ConnectionLayout(64 * 16, 0, 1024);
  private static final int WINDOW = 100_000;
  private static final int SIGNALS = 4;
  private static final byte POISON = (byte) 0xA5;
  private static final long SEED = 5;

  private final List<DeviceMemory> all = new ArrayList<>();
  private final Connection aToB = connection();
  private final Connection bToA = connection();
  private final Rank a = new Rank(0, 1, aToB, bToA);
  private final Rank b = new Rank(1, 0, bToA, aToB);

  private DeviceMemory allocated(long bytes) {
    DeviceMemory memory = HostDevice.instance().allocate(bytes);
    all.add(memory);
    return memory;
  }

  private Connection connection() {
    return new Connection(allocated(LAYOUT.dataBytes()), allocated(ConnectionLayout.CREDIT_BYTES));
  }

  /** A rank: windows 1 and 2, and copies that are done when the test says so. */
  private final class Rank implements RmaSpace.Windows, GinDevice {
    final DeviceMemory source = allocated(WINDOW);
    final DeviceMemory target = allocated(WINDOW);
    final Map<Long, DeviceMemory> windows = new HashMap<>(Map.of(1L, source, 2L, target));
    final GinDevice host = new HostGinDevice(HostDevice.instance());
    final List<LateCopies> copies = new ArrayList<>();
    final GinProxy proxy;
    long newest = 2;
    boolean late;
    boolean failed;

    Rank(int rank, int peer, Connection send, Connection recv) {
      List<Connection> sends = new ArrayList<>(Arrays.asList(null, null, null));
      List<Connection> recvs = new ArrayList<>(sends);
      sends.set(peer, send);
      recvs.set(peer, recv);
      GinProxy.Of of = new GinProxy.Of("communicator c", rank, LAYOUT, 1024);
      proxy = new GinProxy(of, new RmaSpace(sends, recvs, this), this, () -> failed);
    }

    @Override
    public boolean isToCome(long number) {
      return number > newest;
    }

    @Override
    public DeviceMemory memory(long number) {
      return windows.get(number);
    }

    @Override
    public long hostAddress(long address) {
      return address;
    }

    @Override
    public Shared allocate(long bytes) {
      return host.allocate(bytes);
    }

    @Override
    public Copies copies() {
      LateCopies made = new LateCopies(this, host.copies());
      copies.add(made);
      return made;
    }
  }

  /** Copies that run when they are looked at, if they are to. */
  private record LateCopies(Rank of, GinDevice.Copies real, List<long[]> waiting)
      implements GinDevice.Copies {
    LateCopies(Rank of, GinDevice.Copies real) {
      this(of, real, new ArrayList<>());
    }

    @Override
    public void begin(long to, long from, long bytes) {
      waiting.add(new long[] {to, from, bytes});
    }

    @Override
    public long begun() {
      return real.begun() + waiting.size();
    }

    @Override
    public long done() {
      if (!of.late && !waiting.isEmpty()) {
        long[] next = waiting.remove(0);
        real.begin(next[0], next[1], next[2]);
      }
      return real.done();
    }

    @Override
    public void close() {}
  }

  @AfterEach
  void close() {
    assertTrue(a.proxy.end() & b.proxy.end());
    a.proxy.close();
    b.proxy.close();
    all.forEach(DeviceMemory::close);
  }

  /** Both have nothing to do any more. */
  private void settle() {
    int idle = 0;
    for (int turns = 0; idle < 3; turns++) {
      idle = a.proxy.doWork() + b.proxy.doWork() == 0 ? idle + 1 : 0;
      assertTrue(turns < 100_000, "it does not come to an end");
    }
  }

  private static byte[] bytes(DeviceMemory memory) {
    ByteBuffer bytes = ByteBuffer.allocate((int) memory.size());
    memory.read(0, bytes);
    return bytes.array();
  }

  private static boolean post(RmaSpace.KernelRing ring, RmaSpace.KernelPut put) {
    return ring.post(put, Duration.ZERO);
  }

  private static RmaSpace.KernelPut put(long offset, long from, long bytes, int signal) {
    return new RmaSpace.KernelPut(1, 2, offset, 1, from, bytes, signal, false);
  }

  /** From window 1 of a rank into window 2 of the other. */
  private static RmaSpace.KernelPut get(int of, long from, long to, long bytes) {
    return new RmaSpace.KernelPut(of, 1, from, 2, to, bytes, -1, true);
  }

  @Test
  void dataArriveInOrder() {
    Random random = new Random(SEED);
    RmaSpace.KernelRing mine = a.proxy.open(SIGNALS);
    RmaSpace.KernelRing theirs = b.proxy.open(SIGNALS);
    byte[] data = new byte[WINDOW];
    random.nextBytes(data);
    a.source.write(0, ByteBuffer.wrap(data));
    b.target.fill(POISON);
    byte[] expected = new byte[WINDOW];
    Arrays.fill(expected, POISON);
    for (int put = 0; put < 200; put++) {
      int bytes = put % 7 == 0 ? 0 : 1 + random.nextInt(put % 5 == 0 ? 9000 : 1200);
      int to = random.nextInt(WINDOW - bytes + 1);
      int from = random.nextInt(WINDOW - bytes + 1);
      assertTrue(post(mine, put(to, from, bytes, 0)));
      System.arraycopy(data, from, expected, to, bytes);
    }
    settle();
    assertArrayEquals(expected, bytes(b.target), "seed " + SEED);
    assertEquals(200, theirs.signal(0));
    assertEquals(0, theirs.signal(1));
    assertEquals(0, mine.signal(0));
    assertTrue(mine.awaitFlushed(Duration.ZERO));
    assertTrue(mine.awaitArrived(Duration.ZERO));
  }

  @Test
  void aSignalIsNotRaisedBeforeItsDataAreCopied() {
    RmaSpace.KernelRing mine = a.proxy.open(SIGNALS);
    RmaSpace.KernelRing theirs = b.proxy.open(SIGNALS);
    a.source.fill((byte) 7);
    a.late = true;
    assertTrue(post(mine, put(3, 5, 17, 2)));
    settle();
    assertFalse(mine.awaitFlushed(Duration.ZERO), "the source is still read");
    b.late = true;
    a.late = false;
    settle();
    assertTrue(mine.awaitFlushed(Duration.ZERO));
    assertFalse(mine.awaitArrived(Duration.ZERO), "the window is still written");
    assertEquals(0, theirs.signal(2));
    b.late = false;
    settle();
    assertEquals(1, theirs.signal(2));
    assertTrue(mine.awaitArrived(Duration.ZERO));
    assertEquals(7, bytes(b.target)[19]);
    assertEquals(0, bytes(b.target)[20]);
  }

  @Test
  void aFullRingTakesMoreWhenTheProxyHasRead() {
    RmaSpace.KernelRing mine = a.proxy.open(SIGNALS);
    RmaSpace.KernelRing theirs = b.proxy.open(SIGNALS);
    for (int round = 1; round <= 3; round++) {
      for (int put = 0; put < mine.slots(); put++) {
        assertTrue(post(mine, put(0, 0, 1, 3)));
      }
      assertFalse(post(mine, put(0, 0, 1, 3)), "it is full");
      settle();
      assertEquals((long) round * mine.slots(), theirs.signal(3));
    }
    assertFalse(mine.isOver());
  }

  @ParameterizedTest
  @CsvSource({
    "3, 2, 0, 1, 0, 8, 0, is for rank 3 of 3",
    "-1, 2, 0, 1, 0, 8, 0, is for rank -1 of 3",
    "0, 2, 0, 1, 0, 8, 0, is for rank 0; which is in the same team",
    "1, 3, 0, 1, 0, 8, 0, into byte 0 of window 3; which is not registered",
    "1, 2, 99993, 1, 0, 8, 0, into byte 99993 of window 2; which has 100000 bytes",
    "1, 2, -1, 1, 0, 8, 0, into byte -1",
    "1, 2, 0, 1, 99993, 8, 0, from byte 99993 of window 1; which has 100000 bytes",
    "1, 2, 0, 9, 0, 8, 0, from byte 0 of window 9; which is not registered",
    "1, 2, 0, 1, 0, -8, 0, is of -8 bytes",
    "1, 2, 0, 1, 0, 9223372036854775807, 0, is of 9223372036854775807 bytes",
    "1, 2, 0, 1, 0, 8, 4, raises signal 4 of 4",
    "1, 2, 0, 1, 0, 8, -2, raises signal -2 of 4",
    "1, 2, 0, 1, 0, 0, -1, is of 0 bytes and raises signal -1",
  })
  void aPutThatMakesNoSenseIsRefusedBeforeAnythingIsSent(
      int rank,
      long window,
      long offset,
      long sourceWindow,
      long sourceOffset,
      long bytes,
      int signal,
      String message) {
    RmaSpace.KernelRing mine = a.proxy.open(SIGNALS);
    b.proxy.open(SIGNALS);
    b.target.fill(POISON);
    assertTrue(
        post(
            mine,
            new RmaSpace.KernelPut(
                rank, window, offset, sourceWindow, sourceOffset, bytes, signal, false)));
    var error = assertThrows(InvalidUsageException.class, a.proxy::doWork);
    assertTrue(error.getMessage().contains(message.replace(';', ',')), error.getMessage());
    assertTrue(
        error.getMessage().contains("a put of a kernel of rank 0 of communicator c"),
        error.getMessage());
    b.proxy.doWork();
    byte[] poisoned = new byte[WINDOW];
    Arrays.fill(poisoned, POISON);
    assertArrayEquals(poisoned, bytes(b.target));
  }

  @Test
  void whatIsForAWindowOrSignalToComeWaits() {
    RmaSpace.KernelRing mine = a.proxy.open(SIGNALS);
    a.source.fill((byte) 7);
    b.newest = 1;
    assertTrue(post(mine, put(0, 0, 8, -1)));
    assertTrue(post(mine, put(0, 0, 0, 1)));
    settle();
    assertFalse(mine.awaitArrived(Duration.ZERO));
    b.newest = 2;
    settle();
    assertEquals(7, bytes(b.target)[7]);
    assertFalse(mine.awaitArrived(Duration.ZERO), "there is no device communicator yet");
    RmaSpace.KernelRing theirs = b.proxy.open(SIGNALS);
    settle();
    assertEquals(1, theirs.signal(1));
    assertTrue(mine.awaitArrived(Duration.ZERO));
  }

  /** Both ranks get from each other, while both put: more gets than a rank may ask for at once. */
  @Test
  void getsAndPutsOfBothRanksEnd() {
    Random random = new Random(SEED);
    RmaSpace.KernelRing mine = a.proxy.open(SIGNALS);
    RmaSpace.KernelRing theirs = b.proxy.open(SIGNALS);
    byte[][] data = {new byte[WINDOW], new byte[WINDOW]};
    byte[][] expected = {new byte[WINDOW], new byte[WINDOW]};
    List<Rank> ranks = List.of(a, b);
    for (int rank = 0; rank < 2; rank++) {
      random.nextBytes(data[rank]);
      ranks.get(rank).source.write(0, ByteBuffer.wrap(data[rank]));
      ranks.get(rank).target.fill(POISON);
      Arrays.fill(expected[rank], POISON);
    }
    int place = 0;
    for (int each = 0; each < 120; each++) {
      int bytes = 1 + random.nextInt(each % 9 == 0 ? 2500 : 200);
      for (int rank = 0; rank < 2; rank++) {
        RmaSpace.KernelRing ring = rank == 0 ? mine : theirs;
        int from = random.nextInt(WINDOW - bytes + 1);
        int to = place;
        // No two write the same bytes: a get and a put of two ranks are not ordered.
        if (each % 3 == 0) {
          assertTrue(post(ring, new RmaSpace.KernelPut(1 - rank, 2, to, 1, from, bytes, 1, false)));
          System.arraycopy(data[rank], from, expected[1 - rank], to, bytes);
        } else {
          assertTrue(post(ring, get(1 - rank, from, to, bytes)));
          System.arraycopy(data[1 - rank], from, expected[rank], to, bytes);
        }
        place += bytes;
        assertTrue(place + 2500 < WINDOW, "room for one more");
      }
    }
    settle();
    assertArrayEquals(expected[0], bytes(a.target), "seed " + SEED);
    assertArrayEquals(expected[1], bytes(b.target), "seed " + SEED);
    for (RmaSpace.KernelRing ring : List.of(mine, theirs)) {
      assertTrue(ring.awaitFlushed(Duration.ZERO));
      assertTrue(ring.awaitArrived(Duration.ZERO));
      assertEquals(40, ring.signal(1));
    }
  }

  @Test
  void aGetIsDoneOnceItsDataAreCopiedHere() {
    RmaSpace.KernelRing mine = a.proxy.open(SIGNALS);
    b.source.fill((byte) 7);
    b.late = true;
    assertTrue(post(mine, get(1, 5, 3, 17)));
    settle();
    assertFalse(mine.awaitFlushed(Duration.ZERO), "the source is still read");
    a.late = true;
    b.late = false;
    settle();
    assertFalse(mine.awaitFlushed(Duration.ZERO), "the window is still written");
    a.late = false;
    settle();
    assertTrue(mine.awaitFlushed(Duration.ZERO));
    assertTrue(mine.awaitArrived(Duration.ZERO));
    assertEquals(0, bytes(a.target)[2]);
    assertEquals(7, bytes(a.target)[3]);
    assertEquals(7, bytes(a.target)[19]);
    assertEquals(0, bytes(a.target)[20]);
  }

  /** The put's data are copied into the window late. */
  @Test
  void aGetHasTheDataOfThePutsBeforeIt() {
    RmaSpace.KernelRing mine = a.proxy.open(SIGNALS);
    a.source.fill((byte) 9);
    b.late = true;
    assertTrue(post(mine, put(100, 0, 2000, -1)));
    assertTrue(post(mine, new RmaSpace.KernelPut(1, 2, 100, 2, 7000, 2000, -1, true)));
    settle();
    b.late = false;
    settle();
    assertTrue(mine.awaitFlushed(Duration.ZERO));
    for (int i = 0; i < 2000; i++) {
      assertEquals(9, bytes(a.target)[7000 + i]);
    }
  }

  @ParameterizedTest
  @CsvSource({
    "3, 1, 0, 2, 0, 8, -1, is from rank 3 of 3",
    "2, 1, 0, 2, 0, 8, -1, is from rank 2; which is in the same team",
    "1, 3, 0, 2, 0, 8, -1, from byte 0 of window 3; which is not registered",
    "1, 1, 99993, 2, 0, 8, -1, from byte 99993 of window 1; which has 100000 bytes",
    "1, 1, 0, 2, 99993, 8, -1, into byte 99993 of window 2; which has 100000 bytes",
    "1, 1, 0, 2, 0, -8, -1, is of -8 bytes",
    "1, 1, 0, 2, 0, 0, -1, is of 0 bytes",
    "1, 1, 0, 2, 0, 8, 2, raises signal 2",
  })
  void aGetThatMakesNoSenseIsRefusedBeforeAnythingIsSent(
      int rank,
      long window,
      long offset,
      long toWindow,
      long toOffset,
      long bytes,
      int signal,
      String message) {
    RmaSpace.KernelRing mine = a.proxy.open(SIGNALS);
    b.proxy.open(SIGNALS);
    assertTrue(
        post(
            mine,
            new RmaSpace.KernelPut(rank, window, offset, toWindow, toOffset, bytes, signal, true)));
    var error = assertThrows(InvalidUsageException.class, a.proxy::doWork);
    assertTrue(error.getMessage().contains(message.replace(';', ',')), error.getMessage());
    assertTrue(
        error.getMessage().contains("a get of a kernel of rank 0 of communicator c"),
        error.getMessage());
    assertEquals(0, b.proxy.doWork());
  }

  @Test
  void aGetOfAWindowToComeWaits() {
    RmaSpace.KernelRing mine = a.proxy.open(SIGNALS);
    b.source.fill((byte) 7);
    b.newest = 0;
    assertTrue(post(mine, get(1, 0, 0, 8)));
    settle();
    assertFalse(mine.awaitFlushed(Duration.ZERO));
    b.newest = 2;
    settle();
    assertTrue(mine.awaitFlushed(Duration.ZERO));
    assertEquals(7, bytes(a.target)[7]);
  }

  @Test
  void anAnswerIntoAWindowThatIsNoLongerThereIsNamedSo() {
    RmaSpace.KernelRing mine = a.proxy.open(SIGNALS);
    assertTrue(post(mine, get(1, 64, 5, 8)));
    a.proxy.doWork();
    b.proxy.doWork();
    b.proxy.doWork();
    a.windows.remove(2L);
    var error = assertThrows(InvalidUsageException.class, this::settle);
    assertTrue(
        error
            .getMessage()
            .contains(
                "the answer of rank 1 to a get of rank 0 is of 8 bytes at byte 5 of window 2, which is"
                    + " not registered there"),
        error.getMessage());
    assertTrue(error.getMessage().contains("Gin::flush"), error.getMessage());
  }

  @Test
  void aGetOfAWindowThatIsNoLongerThereFailsTheRankThatHadIt() {
    RmaSpace.KernelRing mine = a.proxy.open(SIGNALS);
    b.windows.remove(1L);
    assertTrue(post(mine, get(1, 64, 0, 8)));
    a.proxy.doWork();
    var error = assertThrows(InvalidUsageException.class, b.proxy::doWork);
    assertTrue(
        error
            .getMessage()
            .contains(
                "rank 0 gets 8 bytes at byte 64 of window 1 of rank 1 of communicator c, which is"
                    + " not registered"),
        error.getMessage());
  }

  @Test
  void dataThatNobodyAskedForAreRefused() {
    RmaSpace.KernelRing mine = a.proxy.open(SIGNALS);
    assertTrue(post(mine, put(0, 0, 8, -1)));
    a.proxy.doWork();
    long signals = LAYOUT.simple(0) + RmaMessage.SIGNALS;
    NativeMemory.putInt(aToB.data().address() + signals, GinMessage.ANSWERED);
    b.target.fill(POISON);
    var error = assertThrows(InvalidUsageException.class, b.proxy::doWork);
    assertTrue(
        error.getMessage().contains("rank 0 sends data that nobody has asked for"),
        error.getMessage());
    assertEquals(POISON, bytes(b.target)[0]);
  }

  @Test
  void ringsHaveSignalsOfTheirOwnAndEndAlone() {
    RmaSpace.KernelRing first = a.proxy.open(SIGNALS);
    RmaSpace.KernelRing second = a.proxy.open(1);
    RmaSpace.KernelRing theirFirst = b.proxy.open(SIGNALS);
    RmaSpace.KernelRing theirSecond = b.proxy.open(1);
    assertTrue(post(first, put(0, 0, 5, 0)));
    assertTrue(post(second, put(0, 0, 5, 0)));
    assertTrue(post(second, put(0, 0, 5, 0)));
    settle();
    assertEquals(1, theirFirst.signal(0));
    assertEquals(2, theirSecond.signal(0));
    theirFirst.close();
    theirFirst.close();
    assertTrue(theirFirst.isOver());
    assertFalse(post(theirFirst, put(0, 0, 5, 0)));
    assertTrue(post(first, put(0, 0, 5, 0)), "its signal is nobody's");
    assertTrue(post(second, put(0, 0, 5, 0)));
    settle();
    assertEquals(3, theirSecond.signal(0));
    assertTrue(first.awaitArrived(Duration.ZERO));
  }

  @Test
  void aFailureEndsWaits() {
    RmaSpace.KernelRing mine = a.proxy.open(SIGNALS);
    b.proxy.open(SIGNALS);
    assertTrue(post(mine, put(0, 0, 5, 0)));
    a.failed = true;
    assertFalse(mine.awaitArrived(Duration.ofDays(1)));
    assertFalse(post(mine, put(0, 0, 5, 0)));
    assertEquals(0, a.proxy.doWork(), "nothing is sent or written any more");
    a.failed = false;
    a.proxy.release();
    assertTrue(mine.isOver());
    assertFalse(mine.awaitFlushed(Duration.ofDays(1)));
  }

  /** A device that copies one way only. */
  private static final class OneWay implements GinDevice {
    boolean made;
    boolean closed;

    @Override
    public long hostAddress(long address) {
      return address;
    }

    @Override
    public Shared allocate(long bytes) {
      throw new AssertionError("no ring is opened");
    }

    @Override
    public Copies copies() {
      if (made) {
        throw new IllegalStateException("no more streams");
      }
      made = true;
      return new Copies() {
        @Override
        public void begin(long to, long from, long bytes) {}

        @Override
        public long begun() {
          return 0;
        }

        @Override
        public long done() {
          return 0;
        }

        @Override
        public void close() {
          closed = true;
        }
      };
    }
  }

  @Test
  void aProxyThatCannotCopyBothWaysKeepsNothing() {
    OneWay device = new OneWay();
    List<Connection> none = Arrays.asList(null, null);
    RmaSpace space = new RmaSpace(none, none, a);
    GinProxy.Of of = new GinProxy.Of("communicator c", 0, LAYOUT, 1024);
    assertThrows(IllegalStateException.class, () -> new GinProxy(of, space, device, () -> false));
    assertTrue(device.closed);
  }

  /** The header's own assertions say the same to the compiler of kernels. */
  @Test
  void theHeaderHasTheSameLayout() throws Exception {
    Map<String, Long> offsets = new HashMap<>();
    String header;
    try (InputStream in = DeviceHeaders.class.getResourceAsStream("include/nccl4j_device.cuh")) {
      header = new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
    Matcher matcher =
        Pattern.compile("static_assert\\(offsetof\\((\\w+), (\\w+)\\) == (\\d+)").matcher(header);
    while (matcher.find()) {
      offsets.put(matcher.group(1) + "." + matcher.group(2), Long.valueOf(matcher.group(3)));
    }
    Map<String, Long> here =
        Map.ofEntries(
            Map.entry("nccl4jGinRing.state", GinLayout.STATE),
            Map.entry("nccl4jGinRing.taken", GinLayout.TAKEN),
            Map.entry("nccl4jGinRing.flushed", GinLayout.FLUSHED),
            Map.entry("nccl4jGinRing.arrived", GinLayout.ARRIVED),
            Map.entry("nccl4jGinRing.problem", GinLayout.PROBLEM),
            Map.entry("nccl4jGinRing.signals", GinLayout.SIGNALS),
            Map.entry("nccl4jGinDescriptor.sequence", GinLayout.SEQUENCE),
            Map.entry("nccl4jGinDescriptor.rank", GinLayout.RANK),
            Map.entry("nccl4jGinDescriptor.signal", GinLayout.SIGNAL),
            Map.entry("nccl4jGinDescriptor.window", GinLayout.WINDOW),
            Map.entry("nccl4jGinDescriptor.offset", GinLayout.OFFSET),
            Map.entry("nccl4jGinDescriptor.sourceWindow", GinLayout.SOURCE_WINDOW),
            Map.entry("nccl4jGinDescriptor.sourceOffset", GinLayout.SOURCE_OFFSET),
            Map.entry("nccl4jGinDescriptor.bytes", GinLayout.BYTES),
            Map.entry("nccl4jGinDescriptor.kind", GinLayout.KIND));
    here.forEach((name, offset) -> assertEquals(offset, offsets.get(name), name));
    assertTrue(
        header.contains("sizeof(nccl4jGinDescriptor) == " + GinLayout.DESCRIPTOR_BYTES), "size");
    assertEquals(0, GinProxy.SLOTS & (GinProxy.SLOTS - 1), "a power of two, as kernels need");
  }
}
