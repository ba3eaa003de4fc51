package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.CommunicatorConfig.Determinism;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/**
 * The bits of reductions of numbers that are far apart, so that another order of adding gives other
 * bits: the same again and again, and, where that is asked for, whatever the size.
 */
abstract class ReductionBits {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);
  private static final int ROOT = 1;

  private static final List<DataType> TYPES =
      List.of(
          DataType.FLOAT32,
          DataType.FLOAT16,
          DataType.BFLOAT16,
          DataType.FLOAT8_E4M3,
          DataType.FLOAT8_E5M2);

  /** Algorithms and protocols of all-reduce that both devices have. */
  private static final List<String> WAYS =
      List.of(
          "Ring Simple",
          "Ring LL",
          "Ring LL128",
          "Tree Simple",
          "Tree LL",
          "OneShot Simple",
          "OneShot LL",
          "OneShot LL128",
          "TwoShot Simple",
          "TwoShot LL",
          "NVLS Simple");

  /** One for each rank. */
  abstract List<Device> devices();

  /** Of an operation, at most. */
  abstract int mostElements();

  private enum Kind {
    ALL_REDUCE,
    REDUCE_SCATTER,
    REDUCE
  }

  /** An operation. Elements are those of the whole, of which a rank gets a part by scattering. */
  private record Sum(Kind kind, DataType type, RedOp op, int elements) {
    int bytes() {
      return elements * type.bytes();
    }
  }

  /** The threads and buffers of calls. */
  private enum Calls {
    A_THREAD_EACH,
    ONE_THREAD,
    IN_PLACE,
    WINDOWS
  }

  private List<Sum> sums(List<Kind> kinds, List<RedOp> ops) {
    int n = devices().size();
    List<Sum> sums = new ArrayList<>();
    for (DataType type : TYPES) {
      for (int elements : new int[] {1, 1001, 20_011, mostElements()}) {
        for (Kind kind : kinds) {
          int whole = kind == Kind.REDUCE_SCATTER ? Math.max(1, elements / n) * n : elements;
          ops.forEach(op -> sums.add(new Sum(kind, type, op, whole)));
        }
      }
    }
    return sums;
  }

  /** Ranks with their buffers. */
  private final class Adders implements AutoCloseable {
    private final Ranks ranks;
    private final int n = devices().size();
    private final List<DeviceMemory> plain = new ArrayList<>();
    private final List<DeviceMemory> registered = new ArrayList<>();
    private final List<Window> windows = new ArrayList<>();
    private final Map<DataType, List<byte[]>> numbers = new TreeMap<>();

    Adders(List<Device> devices, CommunicatorConfig config, boolean register) throws Exception {
      ranks =
          new Ranks(
              Communicator.initAll(devices, config.withOperationTimeout(Duration.ofSeconds(30))));
      long bytes = 4L * (mostElements() + n);
      for (int which = 0; which < 2 * n; which++) {
        plain.add(devices.get(which % n).allocate(bytes));
      }
      if (register) {
        register(devices, bytes);
      }
      for (DataType type : TYPES) {
        List<byte[]> all = new ArrayList<>();
        for (int rank = 0; rank < n; rank++) {
          all.add(numbers(type, rank, mostElements() + n));
        }
        numbers.put(type, all);
      }
    }

    private void register(List<Device> devices, long bytes) throws Exception {
      for (int which = 0; which < 2 * n; which++) {
        registered.add(devices.get(which % n).memAlloc(bytes));
        windows.add(null);
      }
      ranks.run(
          (comm, stream) -> {
            for (int which = comm.rank(); which < 2 * n; which += n) {
              windows.set(which, comm.registerWindow(registered.get(which)));
            }
          });
    }

    /** The results of all ranks, one behind the other where each gets a part. */
    byte[] result(Sum sum, Calls calls) throws Exception {
      List<DeviceMemory> all = calls == Calls.WINDOWS ? registered : plain;
      List<DeviceMemory> in = all.subList(0, n);
      List<DeviceMemory> out = calls == Calls.IN_PLACE ? in : all.subList(n, 2 * n);
      for (int rank = 0; rank < n; rank++) {
        byte[] mine = numbers.get(sum.type).get(rank);
        in.get(rank).write(0, ByteBuffer.wrap(mine, 0, sum.bytes()));
      }
      if (calls == Calls.ONE_THREAD) {
        Group.run(
            () ->
                ranks.communicators.forEach(
                    comm -> call(comm, ranks.streams.get(comm.rank()), sum, in, out)));
        ranks.streams.forEach(DeviceStream::synchronize);
      } else {
        ranks.run(
            (comm, stream) -> {
              call(comm, stream, sum, in, out);
              stream.synchronize();
            });
      }
      return switch (sum.kind) {
        case REDUCE -> read(out.get(ROOT), 0, sum.bytes());
        case REDUCE_SCATTER -> scattered(sum, calls, out);
        case ALL_REDUCE -> {
          byte[] first = read(out.get(0), 0, sum.bytes());
          for (DeviceMemory other : out) {
            assertSame(first, read(other, 0, sum.bytes()), sum + ", of two ranks");
          }
          yield first;
        }
      };
    }

    private byte[] scattered(Sum sum, Calls calls, List<DeviceMemory> out) {
      ByteBuffer whole = ByteBuffer.allocate(sum.bytes());
      int part = sum.bytes() / n;
      for (int rank = 0; rank < n; rank++) {
        whole.put(read(out.get(rank), calls == Calls.IN_PLACE ? rank * part : 0, part));
      }
      return whole.array();
    }

    private void call(
        Communicator comm,
        DeviceStream stream,
        Sum sum,
        List<DeviceMemory> sends,
        List<DeviceMemory> recvs) {
      DeviceMemory send = sends.get(comm.rank());
      DeviceMemory recv = recvs.get(comm.rank());
      int elements = sum.elements;
      switch (sum.kind) {
        case ALL_REDUCE -> comm.allReduce(send, recv, elements, sum.type, sum.op, stream);
        case REDUCE -> comm.reduce(send, recv, elements, sum.type, sum.op, ROOT, stream);
        case REDUCE_SCATTER -> {
          long part = sum.bytes() / n;
          DeviceMemory own = send == recv ? recv.slice(comm.rank() * part, part) : recv;
          comm.reduceScatter(send, own, elements / n, sum.type, sum.op, stream);
        }
      }
    }

    /** The bits of each. */
    Map<String, byte[]> results(List<Sum> sums, Calls calls) throws Exception {
      Map<String, byte[]> results = new TreeMap<>();
      for (Sum sum : sums) {
        results.put(sum.toString(), result(sum, calls));
      }
      return results;
    }

    @Override
    public void close() {
      try {
        ranks.run(
            (comm, stream) -> {
              for (int which = comm.rank(); which < windows.size(); which += n) {
                comm.deregisterWindowOnAllRanks(windows.get(which));
              }
            });
      } catch (Exception e) {
        throw new AssertionError(e);
      }
      ranks.close();
      plain.forEach(DeviceMemory::close);
      registered.forEach(DeviceMemory::close);
    }
  }

  /** Random signs and significands, and exponents far apart, but so that no sum is infinite. */
  private static byte[] numbers(DataType type, int rank, int elements) {
    Random random = new Random(SEED + 31 * rank + type.ordinal());
    ByteBuffer bytes = ByteBuffer.allocate(elements * type.bytes()).order(ByteOrder.nativeOrder());
    while (bytes.hasRemaining()) {
      switch (type) {
        case FLOAT32 ->
            bytes.putInt(random.nextInt() & 0x807fffff | 107 + random.nextInt(40) << 23);
        case BFLOAT16 ->
            bytes.putShort((short) (random.nextInt() & 0x807f | 117 + random.nextInt(20) << 7));
        case FLOAT8_E4M3 ->
            bytes.put((byte) (random.nextInt() & 0x87 | 1 + random.nextInt(10) << 3));
        case FLOAT8_E5M2 ->
            bytes.put((byte) (random.nextInt() & 0x83 | 8 + random.nextInt(16) << 2));
        default ->
            bytes.putShort((short) (random.nextInt() & 0x83ff | 8 + random.nextInt(16) << 10));
      }
    }
    return bytes.array();
  }

  private static byte[] read(DeviceMemory memory, long offset, int bytes) {
    byte[] read = new byte[bytes];
    memory.read(offset, ByteBuffer.wrap(read));
    return read;
  }

  private static void assertSame(byte[] expected, byte[] got, String what) {
    int at = Arrays.mismatch(expected, got);
    assertEquals(-1, at, what + ": byte " + at + " of " + got.length);
  }

  private static void assertSame(
      Map<String, byte[]> expected, Map<String, byte[]> got, String what) {
    assertEquals(expected.keySet(), got.keySet());
    expected.forEach((sum, bits) -> assertSame(bits, got.get(sum), what + ", " + sum));
  }

  private void assertTheSameAgain(CommunicatorConfig config, List<Kind> kinds) throws Exception {
    List<Sum> sums = sums(kinds, List.of(RedOp.SUM, RedOp.AVG));
    Map<String, byte[]> first;
    try (Adders adders = new Adders(devices(), config, false)) {
      first = adders.results(sums, Calls.A_THREAD_EACH);
      assertSame(first, adders.results(sums, Calls.A_THREAD_EACH), config + ", again");
      assertSame(first, adders.results(sums, Calls.ONE_THREAD), config + ", by one thread");
    }
    try (Adders adders = new Adders(devices(), config, false)) {
      assertSame(first, adders.results(sums, Calls.A_THREAD_EACH), config + ", made again");
    }
  }

  @Test
  void theSameAgainAsChosen() throws Exception {
    System.out.println("seed " + SEED);
    assertTheSameAgain(CommunicatorConfig.defaults(), List.of(Kind.values()));
  }

  @Test
  void theSameAgainByEachAlgorithm() throws Exception {
    System.out.println("seed " + SEED);
    for (String way : WAYS) {
      String[] parts = way.split(" ");
      CommunicatorConfig config =
          CommunicatorConfig.defaults().with("NCCL_ALGO", parts[0]).with("NCCL_PROTO", parts[1]);
      assertTheSameAgain(config, List.of(Kind.ALL_REDUCE));
    }
  }

  /** The value of an element, independent of its neighbours. */
  private Map<String, byte[]> inRankOrder() throws Exception {
    List<Device> hosts = Collections.nCopies(devices().size(), Devices.host());
    List<Sum> whole =
        sums(List.of(Kind.ALL_REDUCE), List.of(RedOp.SUM)).stream()
            .filter(sum -> sum.elements == mostElements())
            .toList();
    try (Adders adders = new Adders(hosts, sizeInvariant(), false)) {
      Map<String, byte[]> all = new TreeMap<>();
      for (Sum sum : whole) {
        all.put(sum.type.name(), adders.result(sum, Calls.A_THREAD_EACH));
      }
      byte[] floats = Arrays.copyOf(all.get(DataType.FLOAT32.name()), 4 * 1000);
      List<Integer> ranks = new ArrayList<>(IntStream.range(0, hosts.size()).boxed().toList());
      assertArrayEquals(added(ranks), floats);
      Collections.reverse(ranks);
      boolean ordered = !Arrays.equals(added(ranks), floats);
      assertEquals(ranks.size() > 2, ordered, "of three ranks and more the order matters");
      return all;
    }
  }

  /** The first thousand, by this test itself. */
  private static byte[] added(List<Integer> ranks) {
    ByteBuffer sums = ByteBuffer.allocate(4 * 1000).order(ByteOrder.nativeOrder());
    List<ByteBuffer> all = new ArrayList<>();
    for (int rank : ranks) {
      byte[] numbers = numbers(DataType.FLOAT32, rank, 1000);
      all.add(ByteBuffer.wrap(numbers).order(ByteOrder.nativeOrder()));
    }
    while (sums.hasRemaining()) {
      float sum = all.get(0).getFloat();
      for (ByteBuffer other : all.subList(1, all.size())) {
        sum += other.getFloat();
      }
      sums.putFloat(sum);
    }
    return sums.array();
  }

  private static CommunicatorConfig sizeInvariant() {
    return CommunicatorConfig.defaults().withDeterminism(Determinism.SIZE_INVARIANT);
  }

  @Test
  void whateverTheSizeBlocksThreadsAndBuffers() throws Exception {
    System.out.println("seed " + SEED);
    Map<String, byte[]> expected = inRankOrder();
    List<Sum> sums = sums(List.of(Kind.values()), List.of(RedOp.SUM));
    for (CommunicatorConfig config :
        List.of(
            sizeInvariant(),
            sizeInvariant().withMaxCtas(1),
            sizeInvariant().withMaxCtas(5).with("NCCL_NTHREADS", "128"),
            sizeInvariant().with("NCCL_NTHREADS", "256"))) {
      try (Adders adders = new Adders(devices(), config, true)) {
        for (Calls calls : Calls.values()) {
          for (Sum sum : sums) {
            byte[] all = expected.get(sum.type.name());
            byte[] got = adders.result(sum, calls);
            int common = Math.min(all.length, got.length);
            assertSame(
                Arrays.copyOf(all, common),
                Arrays.copyOf(got, common),
                config + ", " + calls + ", " + sum);
          }
        }
      }
    }
  }
}
