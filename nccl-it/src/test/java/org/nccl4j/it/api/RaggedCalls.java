package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Random;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.RaggedConfig;
import org.nccl4j.api.RaggedExchange;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;

/**
 * Calls of a ragged exchange with random counts, many of them 0, compared with what they must give.
 * Every rank draws the counts of all ranks.
 */
final class RaggedCalls implements AutoCloseable {
  private static final byte POISON = 0x5a;

  /** Bytes behind the memories that a call may write. */
  private static final int BEYOND = 64;

  /** Of a window in its memory. */
  private static final int OFFSET = 4096;

  private final RaggedConfig config;
  private final Communicator comm;
  private final Random random;
  private final int n;
  private final int me;
  private final int countBytes;
  private final RaggedExchange exchange;

  /** Counts for each rank, between bytes that are not theirs. */
  private final DeviceMemory counts;

  /** Elements to send; they begin at an address of the draw's. */
  private final DeviceMemory send;

  private long[][] drawn;
  private int salt;
  private int skip;
  private boolean keepsPlace;

  /** Creates an exchange; the seed is the same on all ranks. */
  RaggedCalls(Communicator comm, RaggedConfig config, long seed) {
    this(comm, config, comm.createRaggedExchange(config), seed);
  }

  private RaggedCalls(Communicator comm, RaggedConfig config, RaggedExchange exchange, long seed) {
    this.config = config;
    this.comm = comm;
    this.random = new Random(seed);
    n = comm.nRanks();
    me = comm.rank();
    countBytes = config.countType().bytes();
    this.exchange = exchange;
    counts = comm.device().allocate((long) n * countBytes);
    send = comm.device().allocate(n * config.maxCount() * config.elementBytes() + BEYOND);
  }

  /** Makes calls of one exchange on a rank, each kind by turns. */
  static void run(
      Communicator comm, DeviceStream stream, RaggedConfig config, int calls, long seed) {
    try (RaggedCalls all = new RaggedCalls(comm, config, seed)) {
      all.make(calls, stream);
    }
  }

  /** The same with a window for the received elements, whose first byte is not its memory's. */
  static void runInWindow(
      Communicator comm, DeviceStream stream, RaggedConfig config, int calls, long seed) {
    long bytes = config.maxReceived() * config.elementBytes();
    try (DeviceMemory memory = comm.device().memAlloc(OFFSET + bytes + BEYOND)) {
      DeviceMemory part = memory.slice(OFFSET, bytes + BEYOND);
      Window window = comm.registerWindow(part);
      try (RaggedCalls all =
          new RaggedCalls(comm, config, comm.createRaggedExchange(config, window), seed)) {
        memory.fill(POISON);
        all.make(calls, stream);
        assertEquals(part.address(), all.exchange.received().address());
        same(ByteBuffer.wrap(poison()), memory.slice(OFFSET + bytes, BEYOND), "behind the window");
      }
      comm.deregisterWindowOnAllRanks(window);
    }
  }

  private static byte[] poison() {
    byte[] poison = new byte[BEYOND];
    Arrays.fill(poison, POISON);
    return poison;
  }

  private void make(int calls, DeviceStream stream) {
    for (int call = 0; call < calls; call++) {
      boolean gathers = call % 3 == 2;
      draw(gathers);
      call(gathers, stream);
      stream.synchronize();
      check(gathers);
    }
  }

  RaggedExchange exchange() {
    return exchange;
  }

  /** Draws the counts of all ranks, and writes this rank's counts and elements. */
  void draw(boolean gathers) {
    drawn = new long[n][n];
    int kind = random.nextInt(4);
    for (long[] of : drawn) {
      long same = count(kind);
      for (int target = 0; target < n; target++) {
        of[target] = gathers ? same : count(kind);
      }
    }
    salt = random.nextInt(1 << 20);
    int place = random.nextInt(3) == 0 ? 0 : random.nextInt(17); // in bytes
    skip = keepsPlace ? skip : place;
    bound();
    counts.fill(POISON);
    counts.write(0, numbers(gathers ? 1 : n, target -> drawn[me][target]));
    send.fill(POISON);
    ByteBuffer elements = ByteBuffer.allocate((int) sent(gathers) * config.elementBytes());
    for (int target = 0; target < (gathers ? 1 : n); target++) {
      putElements(elements, me, gathers ? -1 : target);
    }
    send.write(skip, elements.flip());
    exchange.received().fill(POISON);
    exchange.receivedCounts().fill(POISON);
    exchange.receivedOffsets().fill(POISON);
  }

  private long count(int kind) {
    long most = config.maxCount();
    return switch (kind) {
      case 0 -> random.nextLong(most + 1);
      case 1 -> random.nextBoolean() ? 0 : random.nextLong(most + 1);
      case 2 -> most;
      default -> random.nextLong(Math.min(most, 20) + 1);
    };
  }

  /** No rank may receive more than is allowed: what is too much is not sent. */
  private void bound() {
    for (int target = 0; target < n; target++) {
      long room = config.maxReceived();
      for (int source = 0; source < n; source++) {
        drawn[source][target] = Math.min(drawn[source][target], room);
        room -= drawn[source][target];
      }
    }
  }

  private long sent(boolean gathers) {
    long sent = 0;
    for (int target = 0; target < (gathers ? 1 : n); target++) {
      sent += drawn[me][target];
    }
    return sent;
  }

  /**
   * Elements of a rank for another.
   *
   * @param target -1 for all
   */
  private void putElements(ByteBuffer to, int source, int target) {
    long bytes = drawn[source][Math.max(0, target)] * config.elementBytes();
    for (int i = 0; i < bytes; i++) {
      to.put((byte) (salt + 31 * source + 131 * (target + 1) + i * 7 + (i >> 8) * 13));
    }
  }

  private interface Number {
    long of(int rank);
  }

  private ByteBuffer numbers(int how, Number number) {
    ByteBuffer to = ByteBuffer.allocate(how * countBytes).order(ByteOrder.nativeOrder());
    for (int i = 0; i < how; i++) {
      if (config.countType() == DataType.INT64) {
        to.putLong(number.of(i));
      } else {
        to.putInt((int) number.of(i));
      }
    }
    return to.flip();
  }

  /** Makes the call that was drawn. The send buffer has no room for more elements. */
  void call(boolean gathers, DeviceStream stream) {
    call(gathers, send.slice(skip, sent(gathers) * config.elementBytes()), stream);
  }

  private void call(boolean gathers, DeviceMemory elements, DeviceStream stream) {
    if (gathers) {
      exchange.allGather(elements, counts, stream);
    } else {
      exchange.allToAll(elements, counts, stream);
    }
  }

  /**
   * Makes a call that a graph captures, with room for all that may be drawn later: elements then
   * begin at the place of the last draw.
   */
  void capture(boolean gathers, DeviceStream stream) {
    keepsPlace = true;
    call(gathers, send.slice(skip, send.size() - skip), stream);
  }

  /** Compares the results of a call that has ended. */
  void check(boolean gathers) {
    String what = "rank %d, %s".formatted(me, gathers ? "all-gather" : "all-to-all");
    long all = 0;
    long[] offsets = new long[n + 1];
    for (int source = 0; source < n; source++) {
      offsets[source] = all;
      all += drawn[source][me];
    }
    offsets[n] = all;
    same(numbers(n, source -> drawn[source][me]), exchange.receivedCounts(), what + ", counts");
    same(numbers(n + 1, source -> offsets[source]), exchange.receivedOffsets(), what + ", offsets");
    ByteBuffer expected = ByteBuffer.allocate((int) exchange.received().size());
    for (int source = 0; source < n; source++) {
      putElements(expected, source, gathers ? -1 : me);
    }
    while (expected.hasRemaining()) {
      expected.put(POISON);
    }
    same(expected.flip(), exchange.received(), what + ", elements");
    same(numbers(gathers ? 1 : n, rank -> drawn[me][rank]), counts, what + ", counts to send");
  }

  private static void same(ByteBuffer expected, DeviceMemory memory, String what) {
    ByteBuffer read = ByteBuffer.allocate(expected.remaining());
    memory.read(0, read);
    assertEquals(expected.capacity(), expected.remaining());
    assertArrayEquals(expected.array(), read.array(), what);
  }

  @Override
  public void close() {
    exchange.close();
    counts.close();
    send.close();
  }
}
