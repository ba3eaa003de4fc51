package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Every kernel against random data, with poison around and in the outputs. Needs GPUs. */
@Tag("gpu")
class CollectiveGpuTest {
  private static final int GUARD = 256;
  private static final byte POISON = (byte) 0xA5;
  private static final Duration DEADLINE = Duration.ofSeconds(5);

  /** All kernels and operators of a type, odd counts, shifted and in place by chance. */
  @ParameterizedTest
  @EnumSource(DataType.class)
  void everyTypeOperatorAlgorithmAndProtocol(DataType type) {
    long seed = 77 + type.ordinal();
    Random random = new Random(seed);
    try (GpuRanks ranks = new GpuRanks(size(), DEADLINE)) {
      for (Operation operation : Operation.collectives()) {
        for (Algorithm algorithm : algorithms(operation)) {
          for (Protocol protocol : Protocol.values()) {
            for (RedOp op : ops(operation)) {
              int[] counts = {1 + random.nextInt(40), random.nextInt(3000), random.nextInt(60_000)};
              for (int count : counts) {
                int channels = 1 + random.nextInt(count < 100 ? 2 : 24);
                int chunk = random.nextInt(3) == 0 ? 640 : Integer.MAX_VALUE;
                int root = rooted(operation) ? random.nextInt(ranks.n) : 0;
                check(
                    ranks,
                    new CollectiveWork(
                        operation, algorithm, protocol, type, op, root, count, channels, chunk),
                    random,
                    seed);
              }
            }
          }
        }
      }
    }
  }

  /** More operands than one addition has, also on a machine with one GPU. */
  @ParameterizedTest
  @EnumSource(names = {"FLOAT16", "BFLOAT16", "FLOAT8_E4M3", "FLOAT8_E5M2"})
  void roundsSumsOfFourRanksAndMoreOnce(DataType type) {
    long seed = 99 + type.ordinal();
    Random random = new Random(seed);
    try (GpuRanks ranks = new GpuRanks(Math.max(4, size()), DEADLINE)) {
      for (Operation operation : List.of(Operation.ALL_REDUCE, Operation.REDUCE_SCATTER)) {
        for (Algorithm algorithm : shots(operation)) {
          for (Protocol protocol : Protocol.values()) {
            for (RedOp op : RedOp.values()) {
              for (int count : new int[] {1 + random.nextInt(40), 20_000 + random.nextInt(999)}) {
                check(
                    ranks,
                    new CollectiveWork(
                        operation, algorithm, protocol, type, op, 0, count, 2, Integer.MAX_VALUE),
                    random,
                    seed);
              }
            }
          }
        }
      }
    }
  }

  /** The most ranks that combine all operands at once: each has 32 peers, and itself. */
  @ParameterizedTest
  @EnumSource(names = {"FLOAT32", "BFLOAT16", "FLOAT64", "INT32"})
  void meansOfTheMostOperandsAtOnce(DataType type) {
    long seed = 33 + type.ordinal();
    Random random = new Random(seed);
    try (GpuRanks ranks = new GpuRanks(33, DEADLINE.multipliedBy(4))) {
      for (Operation operation :
          List.of(Operation.ALL_REDUCE, Operation.REDUCE, Operation.REDUCE_SCATTER)) {
        for (Algorithm algorithm : shots(operation)) {
          for (int count : new int[] {1 + random.nextInt(40), 3000 + random.nextInt(99)}) {
            check(
                ranks,
                new CollectiveWork(
                    operation,
                    algorithm,
                    Protocol.SIMPLE,
                    type,
                    RedOp.AVG,
                    rooted(operation) ? 32 : 0,
                    count,
                    1,
                    Integer.MAX_VALUE),
                random,
                seed);
          }
        }
      }
    }
  }

  /** Parallel aggregated trees of any number of ranks, several of which share a GPU. */
  @ParameterizedTest
  @ValueSource(ints = {2, 3, 4, 5, 6, 7, 8})
  void treesOfAllRanks(int n) {
    Random random = new Random(n);
    try (GpuRanks ranks = new GpuRanks(n, DEADLINE)) {
      checkTypes(
          ranks,
          Algorithm.PAT,
          List.of(Operation.ALL_GATHER, Operation.REDUCE_SCATTER),
          400_000 / n,
          random,
          n);
    }
  }

  /** Rings within hosts and along rails, several of whose ranks share a GPU. */
  @ParameterizedTest
  @ValueSource(strings = {"aabb", "abab", "aabbcc", "aaabbb", "abcabc", "aaaabbbb"})
  void hierarchicalOnHosts(String hosts) {
    long seed = hosts.hashCode();
    Random random = new Random(seed);
    try (GpuRanks ranks = new GpuRanks(hosts, DEADLINE.multipliedBy(4))) {
      checkTypes(
          ranks,
          Algorithm.HIERARCHICAL,
          List.of(Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.REDUCE_SCATTER),
          400_000,
          random,
          seed);
    }
  }

  /** All types and operators of some operations, by Simple, with few elements and up to many. */
  private static void checkTypes(
      GpuRanks ranks,
      Algorithm algorithm,
      List<Operation> operations,
      int mostBytes,
      Random random,
      long seed) {
    for (DataType type : DataType.values()) {
      for (Operation operation : operations) {
        for (RedOp op : ops(operation)) {
          for (int most : new int[] {40, 3000, mostBytes / type.bytes()}) {
            int count = 1 + random.nextInt(most);
            int channels = 1 + random.nextInt(4);
            int chunk = random.nextInt(3) == 0 ? 640 : Integer.MAX_VALUE;
            check(
                ranks,
                new CollectiveWork(
                    operation, algorithm, Protocol.SIMPLE, type, op, 0, count, channels, chunk),
                random,
                seed);
          }
        }
      }
    }
  }

  /** Enough for slots to be used many times over, by every algorithm and protocol. */
  @ParameterizedTest
  @ValueSource(ints = {300_001, 2_000_003})
  void largeFloats(int count) {
    Random random = new Random(count);
    try (GpuRanks ranks = new GpuRanks(size(), DEADLINE)) {
      for (Operation operation : Operation.collectives()) {
        for (Algorithm algorithm : algorithms(operation)) {
          for (Protocol protocol : Protocol.values()) {
            for (int channels : new int[] {3, 32, 64}) {
              check(
                  ranks,
                  new CollectiveWork(
                      operation,
                      algorithm,
                      protocol,
                      DataType.FLOAT32,
                      RedOp.SUM,
                      ranks.n - 1,
                      count / (spread(operation) ? ranks.n : 1),
                      channels,
                      Integer.MAX_VALUE),
                  random,
                  count);
            }
          }
        }
      }
    }
  }

  /** Rounds that channels claim, many and few, whole and small ones, with ends of any size. */
  @ParameterizedTest
  @EnumSource(names = {"FLOAT32", "INT8", "BFLOAT16"})
  void channelsOfRingsClaimRounds(DataType type) {
    long seed = 4711 + type.ordinal();
    Random random = new Random(seed);
    try (GpuRanks ranks = new GpuRanks(size(), DEADLINE)) {
      for (int i = 0; i < 60; i++) {
        Operation operation = Operation.collectives().get(i % Operation.collectives().size());
        int parts = spread(operation) ? ranks.n : 1;
        int count = (1 + random.nextInt(random.nextBoolean() ? 3_000_000 : 600_000)) / parts;
        int channels = 32 + random.nextInt(33);
        int chunk = 128 * (1 + random.nextInt(6));
        int root = rooted(operation) ? random.nextInt(ranks.n) : 0;
        check(
            ranks,
            new CollectiveWork(
                operation,
                Algorithm.RING,
                Protocol.SIMPLE,
                type,
                RedOp.SUM,
                root,
                count,
                channels,
                chunk),
            random,
            seed);
      }
    }
  }

  static int size() {
    return Math.max(2, CudaDevices.probe().list().size());
  }

  private static List<Algorithm> algorithms(Operation operation) {
    return Stream.of(Algorithm.TREE, Algorithm.RING, Algorithm.ONE_SHOT, Algorithm.TWO_SHOT)
        .filter(algorithm -> algorithm.has(operation))
        .toList();
  }

  /** Of {@link #algorithms}, those that combine all operands at once. */
  private static List<Algorithm> shots(Operation operation) {
    return algorithms(operation).stream().filter(CollectiveGpuTest::isShot).toList();
  }

  private static boolean isShot(Algorithm algorithm) {
    return algorithm == Algorithm.ONE_SHOT || algorithm == Algorithm.TWO_SHOT;
  }

  private static List<RedOp> ops(Operation operation) {
    return operation.reduces() ? List.of(RedOp.values()) : List.of(RedOp.SUM);
  }

  private static boolean rooted(Operation operation) {
    return operation == Operation.BROADCAST || operation == Operation.REDUCE;
  }

  private static boolean spread(Operation operation) {
    return operation == Operation.ALL_GATHER || operation == Operation.REDUCE_SCATTER;
  }

  static void check(GpuRanks ranks, CollectiveWork work, Random random, long seed) {
    int n = ranks.n;
    int element = work.type().bytes();
    int part = (int) work.count() * element;
    int sendBytes = work.operation() == Operation.REDUCE_SCATTER ? n * part : part;
    int recvBytes = work.operation() == Operation.ALL_GATHER ? n * part : part;
    boolean inPlace = random.nextBoolean();
    int shift = random.nextInt(3) == 0 ? random.nextInt(17) * element : 0;
    RandomElements elements =
        new RandomElements(work.type(), work.op(), n, sendBytes / element, random.nextLong());
    if (isShot(work.algorithm())) {
      elements.expectOneRounding();
    }
    List<DeviceMemory> owners = new ArrayList<>();
    List<DeviceMemory> recvs = new ArrayList<>();
    List<DeviceMemory> sends = new ArrayList<>();
    for (int rank = 0; rank < n; rank++) {
      int whole = Math.max(sendBytes, recvBytes);
      DeviceMemory out = ranks.devices.get(rank).allocate(2 * GUARD + shift + whole);
      DeviceMemory in =
          inPlace ? out : ranks.devices.get(rank).allocate(2 * GUARD + shift + sendBytes);
      out.fill(POISON);
      int own = inPlace ? rank * part : 0;
      sends.add(in.slice(GUARD + shift + (sendBytes < whole ? own : 0), sendBytes));
      recvs.add(out.slice(GUARD + shift + (recvBytes < whole ? own : 0), recvBytes));
      owners.add(out);
      sends.get(rank).write(0, elements.inputs[rank].duplicate());
      if (!inPlace) {
        owners.add(in);
      }
    }
    // All before any is launched, for ranks that share a GPU.
    List<KernelPlan> plans = ranks.communicators.stream().map(c -> c.prepare(work)).toList();
    for (int rank = 0; rank < n; rank++) {
      var communicator = ranks.communicators.get(rank);
      communicator.launch(
          plans.get(rank), sends.get(rank), recvs.get(rank), ranks.streams.get(rank));
    }
    ranks.synchronize();
    for (int rank = 0; rank < n; rank++) {
      String what =
          "%s%s shifted by %d, rank %d of %d, seed %d"
              .formatted(work, inPlace ? " in place" : "", shift, rank, n, seed);
      assertNull(wrong(work, elements, rank, n, read(recvs.get(rank))), what);
      if (!inPlace) {
        ByteBuffer edges = read(owners.get(2 * rank));
        for (int i = 0; i < GUARD + shift; i++) {
          assertTrue(edges.get(i) == POISON, what + ": byte before the output written");
        }
        for (int i = GUARD + shift + recvBytes; i < edges.capacity(); i++) {
          assertTrue(edges.get(i) == POISON, what + ": byte after the output written");
        }
      }
    }
    owners.forEach(DeviceMemory::close);
  }

  private static ByteBuffer read(DeviceMemory memory) {
    ByteBuffer data = ByteBuffer.allocateDirect((int) memory.size());
    memory.read(0, data);
    return data.flip();
  }

  private static String wrong(
      CollectiveWork work, RandomElements elements, int rank, int n, ByteBuffer data) {
    return switch (work.operation()) {
      case ALL_REDUCE -> elements.wrong(data, 0);
      case REDUCE -> rank == work.root() ? elements.wrong(data, 0) : null;
      case REDUCE_SCATTER -> elements.wrong(data, rank * (int) work.count());
      case BROADCAST -> elements.wrongCopy(data, work.root());
      default -> {
        String wrong = null;
        int part = data.capacity() / n;
        for (int from = 0; from < n && wrong == null; from++) {
          wrong = elements.wrongCopy(data.slice(from * part, part), from);
        }
        yield wrong;
      }
    };
  }
}
