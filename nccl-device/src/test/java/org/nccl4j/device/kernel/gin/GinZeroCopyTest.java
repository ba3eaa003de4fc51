package org.nccl4j.device.kernel.gin;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.bind.NativeMemory;
import org.nccl4j.device.bind.NativeWords;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.kernel.window.HostGinDevice;
import org.nccl4j.device.kernel.RmaSpace;

/**
 * Two proxies over a network that reads and writes windows: the test carries the steps from one end
 * of a connection to the other as a transport does.
 */
@Timeout(600)
class GinZeroCopyTest {
  private static final int SLOT = 1024;
  private static final ConnectionLayout LAYOUT = new ConnectionLayout(64 * 16, 0, SLOT);
  private static final int WINDOW = 60_000;
  private static final int LEAST = 2000;
  private static final byte POISON = (byte) 0xA5;

  private final List<DeviceMemory> all = new ArrayList<>();
  private final Carrier aToB = new Carrier();
  private final Carrier bToA = new Carrier();
  private final Rank a = new Rank(0, aToB, bToA);
  private final Rank b = new Rank(1, bToA, aToB);

  private DeviceMemory allocated(long bytes) {
    DeviceMemory memory = HostDevice.instance().allocate(bytes);
    all.add(memory);
    return memory;
  }

  /** One direction, with memory of its own at both ends. */
  private final class Carrier implements GinDevice.Exposing, GinDevice.Placing {
    final Connection send = connection();
    final Connection recv = connection();
    final Map<Long, long[]> exposed = new HashMap<>();
    final Map<Long, long[]> told = new HashMap<>();
    final Map<Long, Boolean> placed = new HashMap<>();
    boolean places = true;
    boolean stopped;
    boolean ended;
    boolean refuses;
    int inWindows;
    long most = Long.MAX_VALUE;
    private long carried;

    Connection connection() {
      return new Connection(
          allocated(LAYOUT.dataBytes()), allocated(ConnectionLayout.CREDIT_BYTES));
    }

    /** Carries one step if there is one, and room for it. */
    int carry() {
      NativeWords from = new NativeWords(send.data().address());
      NativeWords credit = new NativeWords(recv.credit().address());
      if (stopped
          || carried >= most
          || from.getLong(ConnectionLayout.TAIL) <= carried
          || carried - credit.getLong(ConnectionLayout.HEAD) >= ConnectionLayout.STEPS) {
        return 0;
      }
      NativeWords to = new NativeWords(recv.data().address());
      long slot = recv.data().address() + LAYOUT.simple(carried);
      long[] source = exposed.remove(carried);
      if (source == null) {
        int size = from.getInt(ConnectionLayout.size(carried));
        NativeMemory.copy(send.data().address() + LAYOUT.simple(carried), slot, size);
      } else {
        long[] target = told.get(carried);
        if (target != null) {
          assertEquals(source[1], target[1], "bytes of the step");
          inWindows++;
          placed.put(carried, true);
        }
        NativeMemory.copy(source[0], target == null ? slot : target[0], source[1]);
      }
      carried++;
      to.putLong(ConnectionLayout.TAIL, carried);
      new NativeWords(send.credit().address()).putLong(ConnectionLayout.HEAD, carried);
      return 1;
    }

    @Override
    public boolean takes(DeviceMemory window, long offset, long bytes) {
      return bytes >= LEAST && !ended && !refuses;
    }

    @Override
    public long add(long first, DeviceMemory window, long offset, long bytes) {
      long step = first;
      for (long at = 0; at < bytes; at += SLOT) {
        long part = Math.min(SLOT, bytes - at);
        exposed.put(step++, new long[] {window.address() + offset + at, part});
      }
      return step;
    }

    @Override
    public void end() {
      ended = true;
    }

    @Override
    public boolean mayTell(long step, long from) {
      return places && step < from + 12;
    }

    @Override
    public void tell(long step, DeviceMemory window, long offset, int bytes) {
      told.put(step, new long[] {window.address() + offset, bytes});
    }

    @Override
    public boolean take(long step) {
      told.remove(step);
      return placed.remove(step) != null;
    }
  }

  /** A rank: windows 1 and 2. */
  private final class Rank implements RmaSpace.Windows, GinDevice {
    final Carrier send;
    final Carrier recv;
    final DeviceMemory source = allocated(WINDOW);
    final DeviceMemory target = allocated(WINDOW);
    final Map<Long, DeviceMemory> windows = Map.of(1L, source, 2L, target);
    final GinDevice host = new HostGinDevice(HostDevice.instance());
    final List<long[]> copies = new ArrayList<>();
    final GinProxy proxy;
    boolean late;

    Rank(int rank, Carrier send, Carrier recv) {
      this.send = send;
      this.recv = recv;
      List<Connection> sends = new ArrayList<>(Arrays.asList(null, null));
      List<Connection> recvs = new ArrayList<>(sends);
      sends.set(1 - rank, send.send);
      recvs.set(1 - rank, recv.recv);
      GinProxy.Of of = new GinProxy.Of("communicator c", rank, LAYOUT, SLOT);
      proxy = new GinProxy(of, new RmaSpace(sends, recvs, this), this, () -> false);
    }

    @Override
    public boolean isToCome(long number) {
      return false;
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
    public Optional<Exposing> exposing(Connection connection) {
      return Optional.of(send);
    }

    @Override
    public Optional<Placing> placing(Connection connection) {
      return Optional.of(recv);
    }

    /** Copies that are done when they are looked at, unless they are late. */
    @Override
    public Copies copies() {
      return new Copies() {
        private final List<long[]> waiting = new ArrayList<>();
        private long done;

        @Override
        public void begin(long to, long from, long bytes) {
          waiting.add(new long[] {to, from, bytes});
        }

        @Override
        public long begun() {
          return done + waiting.size();
        }

        @Override
        public long done() {
          if (!late && !waiting.isEmpty()) {
            long[] next = waiting.remove(0);
            NativeMemory.copy(next[1], next[0], next[2]);
            done++;
          }
          return done;
        }

        @Override
        public void close() {}
      };
    }
  }

  @AfterEach
  void close() {
    assertTrue(a.proxy.end() & b.proxy.end());
    a.proxy.close();
    b.proxy.close();
    all.forEach(DeviceMemory::close);
  }

  private void settle() {
    int idle = 0;
    for (int turns = 0; idle < 3; turns++) {
      int done = a.proxy.doWork() + aToB.carry() + b.proxy.doWork() + bToA.carry();
      idle = done == 0 ? idle + 1 : 0;
      assertTrue(turns < 100_000, "it does not come to an end");
    }
  }

  private static byte[] bytes(DeviceMemory memory) {
    ByteBuffer bytes = ByteBuffer.allocate((int) memory.size());
    memory.read(0, bytes);
    return bytes.array();
  }

  private static void post(
      RmaSpace.KernelRing ring, int rank, long of, long own, long bytes, int signal, boolean get) {
    RmaSpace.KernelPut put =
        get
            ? new RmaSpace.KernelPut(rank, 1, of, 2, own, bytes, signal, true)
            : new RmaSpace.KernelPut(rank, 2, of, 1, own, bytes, signal, false);
    assertTrue(ring.post(put, Duration.ZERO));
  }

  /** Small and large ones, whose data go by slots and by windows, in order. */
  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8})
  void putsAndGetsOfAllSizesAreWhole(long seed) {
    Random random = new Random(seed);
    bToA.places = seed % 4 != 0;
    RmaSpace.KernelRing mine = a.proxy.open(2);
    RmaSpace.KernelRing theirs = b.proxy.open(2);
    byte[] ofA = new byte[WINDOW];
    byte[] ofB = new byte[WINDOW];
    random.nextBytes(ofA);
    random.nextBytes(ofB);
    a.source.write(0, ByteBuffer.wrap(ofA));
    b.source.write(0, ByteBuffer.wrap(ofB));
    a.target.fill(POISON);
    b.target.fill(POISON);
    byte[] atA = bytes(a.target);
    byte[] atB = bytes(b.target);
    for (int each = 0; each < 60; each++) {
      int bytes = 1 + random.nextInt(random.nextBoolean() ? LEAST : 30_000);
      int from = random.nextInt(WINDOW - bytes + 1);
      int to = random.nextInt(WINDOW - bytes + 1);
      if (random.nextBoolean()) {
        post(mine, 1, to, from, bytes, 0, false);
        System.arraycopy(ofA, from, atB, to, bytes);
      } else {
        post(mine, 1, from, to, bytes, -1, true);
        System.arraycopy(ofB, from, atA, to, bytes);
      }
      if (random.nextInt(5) == 0) {
        settle();
      }
    }
    settle();
    assertArrayEquals(atA, bytes(a.target), "what was got");
    assertArrayEquals(atB, bytes(b.target), "what was put");
    assertTrue(mine.awaitFlushed(Duration.ZERO));
    assertTrue(mine.awaitArrived(Duration.ZERO));
    assertTrue(aToB.inWindows > 100);
    assertEquals(bToA.places, bToA.inWindows > 100);
    assertEquals(0, mine.signal(0));
    assertTrue(theirs.signal(0) > 0);
  }

  @Test
  void aSourceIsFreeOnceItIsSent() {
    RmaSpace.KernelRing mine = a.proxy.open(1);
    RmaSpace.KernelRing theirs = b.proxy.open(1);
    aToB.stopped = true;
    post(mine, 1, 0, 0, 20 * SLOT, 0, false);
    settle();
    assertFalse(mine.awaitFlushed(Duration.ZERO), "the network has not read it");
    aToB.stopped = false;
    b.late = true;
    settle();
    assertTrue(mine.awaitFlushed(Duration.ZERO));
    b.late = false;
    settle();
    assertTrue(mine.awaitArrived(Duration.ZERO));
    assertEquals(1, theirs.signal(0));
  }

  /** The network must not write the second put's data before the first's are copied. */
  @Test
  void dataInWindowsComeAfterEarlierCopies() {
    RmaSpace.KernelRing mine = a.proxy.open(1);
    a.source.fill((byte) 1);
    NativeMemory.putInt(a.source.address() + 10_000, 0x02020202);
    b.late = true;
    post(mine, 1, 0, 0, 100, -1, false);
    post(mine, 1, 0, 10_000, 3000, -1, false);
    settle();
    b.late = false;
    settle();
    assertTrue(mine.awaitArrived(Duration.ZERO));
    assertEquals(2, bytes(b.target)[0]);
  }

  /** The acknowledgement has its place between the messages of a put. */
  @Test
  void anAcknowledgementDoesNotWaitForALargePut() {
    RmaSpace.KernelRing mine = a.proxy.open(1);
    RmaSpace.KernelRing theirs = b.proxy.open(1);
    aToB.most = 40;
    post(mine, 1, 0, 0, 58 * SLOT, 0, false);
    post(theirs, 0, 0, 0, 100, 0, false);
    settle();
    assertTrue(theirs.awaitArrived(Duration.ZERO));
    assertFalse(mine.awaitFlushed(Duration.ZERO), "the put is in its middle");
    aToB.most = Long.MAX_VALUE;
    settle();
    assertTrue(mine.awaitArrived(Duration.ZERO));
    assertEquals(1, theirs.signal(0), "the signal comes once, after the last message");
  }

  @Test
  void anotherRingDoesNotWaitForALargePut() {
    RmaSpace.KernelRing large = a.proxy.open(1);
    RmaSpace.KernelRing small = a.proxy.open(1);
    RmaSpace.KernelRing theirs = b.proxy.open(1);
    RmaSpace.KernelRing others = b.proxy.open(1);
    aToB.most = 40;
    post(large, 1, 0, 0, 58 * SLOT, 0, false);
    post(small, 1, 59_000, 0, 100, 0, false);
    settle();
    assertTrue(small.awaitArrived(Duration.ZERO));
    assertEquals(1, others.signal(0));
    assertEquals(0, theirs.signal(0));
    aToB.most = Long.MAX_VALUE;
    settle();
    assertTrue(large.awaitArrived(Duration.ZERO));
    assertEquals(1, theirs.signal(0));
  }

  /** The answer to a get has its place too, between the messages of a put. */
  @Test
  void anAnswerDoesNotWaitForALargePut() {
    RmaSpace.KernelRing mine = a.proxy.open(1);
    RmaSpace.KernelRing theirs = b.proxy.open(1);
    aToB.most = 40;
    post(mine, 1, 0, 0, 58 * SLOT, 0, false);
    post(theirs, 0, 0, 59_000, 100, -1, true);
    settle();
    assertTrue(theirs.awaitFlushed(Duration.ZERO));
    assertFalse(mine.awaitFlushed(Duration.ZERO));
    aToB.most = Long.MAX_VALUE;
    settle();
    assertTrue(mine.awaitArrived(Duration.ZERO));
  }

  /** The network reads the first message's data, when the last one's are in a slot. */
  @Test
  void aSourceIsNotFreeBecauseItsRestIsCopied() {
    RmaSpace.KernelRing mine = a.proxy.open(1);
    b.proxy.open(1);
    aToB.most = 30;
    post(mine, 1, 0, 0, 32 * SLOT + 100, -1, false);
    settle();
    assertFalse(mine.awaitFlushed(Duration.ZERO), "the network has not read it");
    aToB.most = Long.MAX_VALUE;
    settle();
    assertTrue(mine.awaitArrived(Duration.ZERO));
  }

  @Test
  void whatTheNetworkRefusesInTheMiddleGoesBySlots() {
    RmaSpace.KernelRing mine = a.proxy.open(1);
    RmaSpace.KernelRing theirs = b.proxy.open(1);
    byte[] data = new byte[WINDOW];
    new Random(1).nextBytes(data);
    a.source.write(0, ByteBuffer.wrap(data));
    aToB.most = 20;
    post(mine, 1, 0, 0, WINDOW, 0, false);
    settle();
    aToB.refuses = true;
    aToB.most = Long.MAX_VALUE;
    settle();
    assertTrue(mine.awaitArrived(Duration.ZERO));
    assertArrayEquals(data, bytes(b.target));
    assertEquals(1, theirs.signal(0));
    assertTrue(aToB.inWindows < 33);
  }

  @Test
  void aFailureEndsWhatIsExposed() {
    a.proxy.release();
    assertTrue(aToB.ended);
  }
}
