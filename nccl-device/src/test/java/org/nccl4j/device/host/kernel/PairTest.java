package org.nccl4j.device.host.kernel;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.System.Logger.Level;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Arrays;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Reduces, all-reduces and broadcasts of two ranks, each of which does a half if they reach each
 * other.
 */
@Timeout(600)
class PairTest {
  private static final ConnectionLayout LAYOUT = new ConnectionLayout(64 * 16, 7 * 128, 4096);
  private static final SingleCopy IN_PROCESS = new SingleCopy(4096, SingleCopy.NEVER, Level.DEBUG);
  private static final SingleCopy BETWEEN_PROCESSES =
      new SingleCopy(SingleCopy.NEVER, 4096, Level.DEBUG);
  private static final SingleCopy MAPPED =
      new SingleCopy(SingleCopy.NEVER, SingleCopy.NEVER, 4096, Level.DEBUG);

  /** Most bytes of a step in LL128 here. */
  private static final int LL128_BYTES = 6 * 128;

  static Stream<SingleCopy> ways() {
    return Stream.of(IN_PROCESS, BETWEEN_PROCESSES, MAPPED, SingleCopy.OFF);
  }

  /** Through slots the ring's kernel runs, whose bits all other ways must give. */
  @ParameterizedTest
  @MethodSource("ways")
  void theBitsAreThoseOfTheRing(SingleCopy way) {
    Random random = new Random(43);
    Duration deadline = Duration.ofSeconds(30);
    try (LocalRanks ranks = new LocalRanks(2, LAYOUT, deadline, way);
        LocalRanks through = new LocalRanks(2, LAYOUT, deadline, SingleCopy.OFF)) {
      for (int turn = 0; turn < 120; turn++) {
        DataType type = DataType.values()[turn % DataType.values().length];
        RedOp op = RedOp.values()[random.nextInt(RedOp.values().length)];
        int count = (4096 + random.nextInt(90_000)) / type.bytes();
        int shift = random.nextInt(3) * type.bytes();
        boolean inPlace = random.nextBoolean();
        byte[][] contents = new byte[2][count * type.bytes() + shift];
        fill(contents[0], random, shift, type.bytes());
        fill(contents[1], random, shift, type.bytes());
        CollectiveWork work = reduce(type, op, random.nextInt(2), count);
        byte[] wanted = run(through, work, contents, shift, inPlace);
        byte[] got = run(ranks, work, contents, shift, inPlace);
        assertArrayEquals(wanted, got, "turn " + turn + ": " + work + (inPlace ? " in place" : ""));
      }
    }
  }

  /** Through slots the algorithm's own kernel runs. Each rank is in place or not. */
  @ParameterizedTest
  @MethodSource("ways")
  void theBitsOfAllReducesAreThoseOfTheAlgorithm(SingleCopy way) {
    Random random = new Random(47);
    Algorithm[] algorithms = {Algorithm.RING, Algorithm.ONE_SHOT, Algorithm.TWO_SHOT};
    Duration deadline = Duration.ofSeconds(30);
    try (LocalRanks ranks = new LocalRanks(2, LAYOUT, deadline, way);
        LocalRanks through = new LocalRanks(2, LAYOUT, deadline, SingleCopy.OFF)) {
      for (int turn = 0; turn < 120; turn++) {
        DataType type = DataType.values()[turn % DataType.values().length];
        RedOp op = RedOp.values()[random.nextInt(RedOp.values().length)];
        int count = (4096 + random.nextInt(90_000)) / type.bytes();
        int shift = random.nextInt(3) * type.bytes();
        byte[][] contents = new byte[2][count * type.bytes() + shift];
        fill(contents[0], random, shift, type.bytes());
        fill(contents[1], random, shift, type.bytes());
        Algorithm algorithm = algorithms[random.nextInt(algorithms.length)];
        CollectiveWork work =
            new CollectiveWork(
                Operation.ALL_REDUCE, algorithm, Protocol.SIMPLE, type, op, 0, count, 1, 4096);
        byte[][] wanted = outcomes(through, work, contents, shift, false, false);
        boolean first = random.nextBoolean();
        boolean second = random.nextBoolean();
        byte[][] got = outcomes(ranks, work, contents, shift, first, second);
        for (int rank = 0; rank < 2; rank++) {
          String what = "turn %d, rank %d: %s, in place: %s, %s";
          assertArrayEquals(
              wanted[rank], got[rank], what.formatted(turn, rank, work, first, second));
        }
      }
    }
  }

  @ParameterizedTest
  @MethodSource("ways")
  void largeAllReducesAreRight(SingleCopy way) {
    int count = (17 << 20) / 4 + 5;
    byte[][] contents = multiples(count);
    try (LocalRanks ranks = new LocalRanks(2, LAYOUT, Duration.ofSeconds(30), way)) {
      for (byte[] got : outcomes(ranks, allReduce(count), contents, 0, false, true)) {
        ByteBuffer words = ByteBuffer.wrap(got).order(ByteOrder.nativeOrder());
        for (int i = 0; i < count; i++) {
          assertEquals(3 * i, words.getInt(4 * i), "element " + i);
        }
      }
    }
  }

  /** Small reduces are one step in LL128; in Simple the ring's kernel runs. */
  @Test
  void theBitsOfOneStepAreThoseOfTheRing() {
    Random random = new Random(45);
    try (LocalRanks ranks = new LocalRanks(2, LAYOUT, Duration.ofSeconds(30), SingleCopy.OFF)) {
      for (int turn = 0; turn < 400; turn++) {
        DataType type = DataType.values()[turn % DataType.values().length];
        RedOp op = RedOp.values()[random.nextInt(RedOp.values().length)];
        int count = 1 + random.nextInt(LL128_BYTES / type.bytes());
        int shift = random.nextInt(3) * type.bytes();
        boolean inPlace = random.nextBoolean();
        byte[][] contents = new byte[2][count * type.bytes() + shift];
        fill(contents[0], random, shift, type.bytes());
        fill(contents[1], random, shift, type.bytes());
        CollectiveWork simple = reduce(type, op, random.nextInt(2), count);
        CollectiveWork step = inLl128(Operation.REDUCE, type, op, simple.root(), count);
        byte[] wanted = run(ranks, simple, contents, shift, inPlace);
        byte[] got = run(ranks, step, contents, shift, inPlace);
        assertArrayEquals(wanted, got, "turn " + turn + ": " + step + (inPlace ? " in place" : ""));
      }
    }
  }

  @Test
  void broadcastsOfOneStepArriveWhole() {
    Random random = new Random(46);
    try (LocalRanks ranks = new LocalRanks(2, LAYOUT, Duration.ofSeconds(30), SingleCopy.OFF)) {
      for (int bytes = 1; bytes <= LL128_BYTES; bytes++) {
        int root = bytes % 2;
        byte[] content = new byte[bytes];
        random.nextBytes(content);
        CollectiveWork work = inLl128(Operation.BROADCAST, DataType.INT8, RedOp.SUM, root, bytes);
        DeviceMemory send = ranks.device.memAlloc(bytes);
        send.write(0, ByteBuffer.wrap(content));
        DeviceMemory[] recvs = {ranks.device.memAlloc(bytes + 8), ranks.device.memAlloc(bytes + 8)};
        recvs[1 - root].fill((byte) 0);
        if (bytes % 4 > 1) {
          recvs[root].close();
          recvs[root] = send;
        }
        for (int rank = 0; rank < 2; rank++) {
          KernelCommunicator communicator = ranks.communicators.get(rank);
          communicator.launch(
              communicator.prepare(work),
              rank == root ? send : recvs[rank],
              recvs[rank],
              ranks.streams.get(rank));
        }
        ranks.streams.forEach(DeviceStream::isIdle);
        ranks.streams.forEach(DeviceStream::synchronize);
        assertArrayEquals(content, read(recvs[0].slice(0, bytes), bytes), bytes + " bytes, rank 0");
        assertArrayEquals(content, read(recvs[1].slice(0, bytes), bytes), bytes + " bytes, rank 1");
        assertArrayEquals(new byte[8], read(recvs[1 - root].slice(bytes, 8), 8), bytes + " bytes");
        recvs[0].close();
        recvs[1].close();
        if (recvs[root] != send) {
          send.close();
        }
      }
    }
  }

  /**
   * Small calls in a row give their slots back many at a time. In an all-reduce both ranks send
   * first, by fewer slots, and would wait for each other if too many were still to be given back.
   */
  @Test
  void exchangesGoOnAfterAnyNumberOfSmallCalls() {
    int count = 32;
    try (LocalRanks ranks = new LocalRanks(2, LAYOUT, Duration.ofSeconds(30), SingleCopy.OFF);
        DeviceMemory small = ranks.device.memAlloc(4 * count);
        DeviceMemory large = ranks.device.memAlloc(3 * LAYOUT.simpleSlotBytes());
        DeviceMemory sums = ranks.device.memAlloc(2 * large.size())) {
      for (int calls = 1; calls <= 40; calls++) {
        Operation first = calls % 2 == 0 ? Operation.REDUCE : Operation.BROADCAST;
        CollectiveWork work = inLl128(first, DataType.INT32, RedOp.SUM, calls % 3 % 2, count);
        CollectiveWork exchange = allReduce((int) large.size() / 4);
        for (int rank = 0; rank < 2; rank++) {
          KernelCommunicator communicator = ranks.communicators.get(rank);
          DeviceStream stream = ranks.streams.get(rank);
          DeviceMemory sum = sums.slice(rank * large.size(), large.size());
          KernelPlan plan = communicator.prepare(work);
          for (int call = 0; call < calls; call++) {
            communicator.launch(plan, small, sum, stream);
          }
          communicator.launch(communicator.prepare(exchange), large, sum, stream);
        }
        ranks.streams.forEach(DeviceStream::isIdle);
        ranks.streams.forEach(DeviceStream::synchronize);
      }
    }
  }

  /** Integers of both ranks, multiples of each one's number counted from 1. */
  private static byte[][] multiples(int count) {
    byte[][] contents = new byte[2][4 * count];
    for (int rank = 0; rank < 2; rank++) {
      ByteBuffer words = ByteBuffer.wrap(contents[rank]).order(ByteOrder.nativeOrder());
      for (int i = 0; i < count; i++) {
        words.putInt(4 * i, (rank + 1) * i);
      }
    }
    return contents;
  }

  private static CollectiveWork allReduce(int count) {
    return new CollectiveWork(
        Operation.ALL_REDUCE,
        Algorithm.ONE_SHOT,
        Protocol.SIMPLE,
        DataType.INT32,
        RedOp.SUM,
        0,
        count,
        1,
        LAYOUT.simpleSlotBytes());
  }

  /** An outcome that leaves the caches goes through the ranks' own memory. */
  @ParameterizedTest
  @MethodSource("ways")
  void largeOutcomesAreRight(SingleCopy way) {
    int count = (17 << 20) / 4 + 5;
    byte[][] contents = multiples(count);
    try (LocalRanks ranks = new LocalRanks(2, LAYOUT, Duration.ofSeconds(30), way)) {
      CollectiveWork work = reduce(DataType.INT32, RedOp.SUM, 1, count);
      byte[] got = run(ranks, work, contents, 0, /* inPlace= */ false);
      ByteBuffer words = ByteBuffer.wrap(got).order(ByteOrder.nativeOrder());
      for (int i = 0; i < count; i++) {
        assertEquals(3 * i, words.getInt(4 * i), "element " + i);
      }
    }
  }

  /**
   * In place each rank copies a half; a root that has a copy of its own to make exposes nothing.
   */
  @ParameterizedTest
  @MethodSource("ways")
  void largeBroadcastsArriveWhole(SingleCopy way) {
    Random random = new Random(44);
    try (LocalRanks ranks = new LocalRanks(2, LAYOUT, Duration.ofSeconds(30), way)) {
      for (int turn = 0; turn < 8; turn++) {
        int root = turn % 2;
        int bytes = (1 << 20) + random.nextInt(3 << 20);
        int shift = random.nextInt(5);
        byte[][] contents = new byte[2][bytes + shift];
        random.nextBytes(contents[0]);
        random.nextBytes(contents[1]);
        CollectiveWork work = work(Operation.BROADCAST, DataType.INT8, RedOp.SUM, root, bytes);
        DeviceMemory[] buffers = new DeviceMemory[3];
        for (int b = 0; b < buffers.length; b++) {
          buffers[b] = ranks.device.memAlloc(bytes + shift);
          buffers[b].write(0, ByteBuffer.wrap(contents[b == 1 - root ? 1 - root : root]));
        }
        for (int rank = 0; rank < 2; rank++) {
          DeviceMemory recv = buffers[rank == root && turn % 4 > 1 ? 2 : rank];
          KernelCommunicator communicator = ranks.communicators.get(rank);
          communicator.launch(
              communicator.prepare(work),
              buffers[rank].slice(shift, bytes),
              recv.slice(shift, bytes),
              ranks.streams.get(rank));
        }
        ranks.streams.forEach(DeviceStream::isIdle);
        ranks.streams.forEach(DeviceStream::synchronize);
        System.arraycopy(contents[1 - root], 0, contents[root], 0, shift);
        assertArrayEquals(contents[root], read(buffers[1 - root], bytes + shift), "turn " + turn);
        for (DeviceMemory buffer : buffers) {
          buffer.close();
        }
      }
    }
  }

  /** The memory is unmapped: a rank that wrote to it would end the process. */
  @Test
  void aRankThatComesAfterTheRootsFailureDoesNotTouchItsFreedBuffer() {
    try (LocalRanks ranks = new LocalRanks(2, LAYOUT, Duration.ofMillis(50), IN_PROCESS)) {
      CollectiveWork work = reduce(DataType.INT8, RedOp.SUM, 0, 60_000);
      DeviceMemory mine = launch(ranks, 0, work);
      assertThrows(TimeoutException.class, () -> ranks.streams.get(0).synchronize());
      mine.close();
      DeviceMemory theirs = launch(ranks, 1, work);
      assertThrows(TimeoutException.class, () -> ranks.streams.get(1).synchronize());
      theirs.close();
    }
  }

  /** The memory is unmapped: a rank that wrote to it would end the process. */
  @Test
  void aRankOfAnAllReduceThatComesAfterTheOthersFailureDoesNotTouchItsFreedBuffer() {
    for (int first = 0; first < 2; first++) {
      try (LocalRanks ranks = new LocalRanks(2, LAYOUT, Duration.ofMillis(50), IN_PROCESS)) {
        int failing = first;
        int late = 1 - first;
        DeviceMemory mine = launch(ranks, failing, allReduce(15_000));
        assertThrows(TimeoutException.class, () -> ranks.streams.get(failing).synchronize());
        mine.close();
        DeviceMemory theirs = launch(ranks, late, allReduce(15_000));
        assertThrows(TimeoutException.class, () -> ranks.streams.get(late).synchronize());
        theirs.close();
      }
    }
  }

  /** Elements without NaN: which payload the sum of two has is up to the JVM's compiler. */
  private static void fill(byte[] bytes, Random random, int first, int elementBytes) {
    random.nextBytes(bytes);
    for (int last = first + elementBytes - 1; last < bytes.length; last += elementBytes) {
      bytes[last] &= (byte) 0xbf; // the exponent's highest bit
    }
  }

  private static DeviceMemory launch(LocalRanks ranks, int rank, CollectiveWork work) {
    DeviceMemory buffer = ranks.device.allocate(work.count() * work.type().bytes());
    KernelCommunicator communicator = ranks.communicators.get(rank);
    communicator.launch(communicator.prepare(work), buffer, buffer, ranks.streams.get(rank));
    return buffer;
  }

  /** The root's outcome; beside it, and in the other rank's buffers, nothing may change. */
  private static byte[] run(
      LocalRanks ranks, CollectiveWork work, byte[][] contents, int shift, boolean inPlace) {
    int bytes = contents[0].length;
    DeviceMemory[] sends = new DeviceMemory[2];
    DeviceMemory[] recvs = new DeviceMemory[2];
    for (int rank = 0; rank < 2; rank++) {
      sends[rank] = ranks.device.memAlloc(bytes);
      sends[rank].write(0, ByteBuffer.wrap(contents[rank]));
      recvs[rank] = inPlace ? sends[rank] : ranks.device.memAlloc(bytes + 64);
      if (!inPlace) {
        recvs[rank].fill((byte) 0x5a);
      }
      KernelCommunicator communicator = ranks.communicators.get(rank);
      communicator.launch(
          communicator.prepare(work),
          sends[rank].slice(shift, bytes - shift),
          recvs[rank].slice(shift, bytes - shift),
          ranks.streams.get(rank));
    }
    ranks.streams.forEach(DeviceStream::isIdle);
    ranks.streams.forEach(DeviceStream::synchronize);
    int root = work.root();
    assertArrayEquals(contents[1 - root], read(sends[1 - root], bytes));
    byte[] outcome = read(recvs[root], (int) recvs[root].size());
    if (!inPlace) {
      for (int at = 0; at < outcome.length; at++) {
        if (at < shift || at >= bytes) {
          assertEquals(0x5a, outcome[at], "beside the outcome, at " + at);
        }
      }
    }
    for (int rank = 0; rank < 2; rank++) {
      sends[rank].close();
      if (!inPlace) {
        recvs[rank].close();
      }
    }
    return outcome;
  }

  /** Both ranks' outcomes; beside them nothing may change, nor in the buffers that are sent. */
  private static byte[][] outcomes(
      LocalRanks ranks, CollectiveWork work, byte[][] contents, int shift, boolean... inPlace) {
    int bytes = contents[0].length;
    DeviceMemory[] sends = new DeviceMemory[2];
    DeviceMemory[] recvs = new DeviceMemory[2];
    for (int rank = 0; rank < 2; rank++) {
      sends[rank] = ranks.device.memAlloc(bytes + 64);
      sends[rank].write(0, ByteBuffer.wrap(contents[rank]));
      recvs[rank] = inPlace[rank] ? sends[rank] : ranks.device.memAlloc(bytes + 64);
      recvs[rank].slice(bytes, 64).fill((byte) 0x5a);
      KernelCommunicator communicator = ranks.communicators.get(rank);
      communicator.launch(
          communicator.prepare(work),
          sends[rank].slice(shift, bytes - shift),
          recvs[rank].slice(shift, bytes - shift),
          ranks.streams.get(rank));
    }
    ranks.streams.forEach(DeviceStream::isIdle);
    ranks.streams.forEach(DeviceStream::synchronize);
    byte[][] outcomes = new byte[2][];
    byte[] beside = new byte[64];
    Arrays.fill(beside, (byte) 0x5a);
    for (int rank = 0; rank < 2; rank++) {
      outcomes[rank] = read(recvs[rank].slice(shift, bytes - shift), bytes - shift);
      assertArrayEquals(beside, read(recvs[rank].slice(bytes, 64), 64));
      if (inPlace[rank]) {
        byte[] before = Arrays.copyOf(contents[rank], shift);
        assertArrayEquals(before, read(recvs[rank], shift));
      } else {
        assertArrayEquals(contents[rank], read(sends[rank], bytes));
        recvs[rank].close();
      }
      sends[rank].close();
    }
    return outcomes;
  }

  private static byte[] read(DeviceMemory memory, int bytes) {
    byte[] all = new byte[bytes];
    memory.read(0, ByteBuffer.wrap(all));
    return all;
  }

  private static CollectiveWork reduce(DataType type, RedOp op, int root, int count) {
    return work(Operation.REDUCE, type, op, root, count);
  }

  private static CollectiveWork work(
      Operation operation, DataType type, RedOp op, int root, int count) {
    return new CollectiveWork(
        operation, Algorithm.RING, Protocol.SIMPLE, type, op, root, count, 1, 4096);
  }

  private static CollectiveWork inLl128(
      Operation operation, DataType type, RedOp op, int root, int count) {
    return new CollectiveWork(
        operation, Algorithm.RING, Protocol.LL128, type, op, root, count, 1, LL128_BYTES);
  }
}
