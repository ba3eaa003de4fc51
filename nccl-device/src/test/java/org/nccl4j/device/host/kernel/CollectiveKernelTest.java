package org.nccl4j.device.host.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.System.Logger.Level;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Every collective by every algorithm and protocol, type and operator, with odd counts, odd offsets
 * and slots so small that steps and credits wrap round, against sums in integers.
 */
class CollectiveKernelTest {
  private static final DataType[] ONE_TYPE = {DataType.INT32};

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4, 5, 8})
  void everyKernelIsRight(int n) {
    everyKernelIsRight(n, Operation.collectives(), List.of());
  }

  /** Ranks whose number is no power of two have partners that others lack. */
  @ParameterizedTest
  @ValueSource(ints = {6, 7, 10, 16, 17, 33})
  void everyDoublingIsRight(int n) {
    List<Operation> all = Operation.collectives().stream().filter(Algorithm.DOUBLING::has).toList();
    everyKernelIsRight(n, all, List.of(Algorithm.DOUBLING));
  }

  /** Trees of all shapes. */
  @ParameterizedTest
  @ValueSource(ints = {2, 3, 4, 5, 6, 7, 8, 9, 17, 33})
  void everyTreeOfPatIsRight(int n) {
    List<Operation> both = List.of(Operation.ALL_GATHER, Operation.REDUCE_SCATTER);
    everyKernelIsRight(n, both, List.of(Algorithm.PAT));
  }

  /** As where ranks are ordered by the caches of their cores: every rank is a root. */
  @ParameterizedTest
  @ValueSource(ints = {2, 3, 4, 5, 6, 7, 8, 9})
  void everyKernelIsRightInAnyOrder(int n) {
    Random random = new Random(72 + n);
    List<Integer> ranks = new ArrayList<>(IntStream.range(0, n).boxed().toList());
    Collections.shuffle(ranks, random);
    int[] order = ranks.stream().mapToInt(rank -> rank).toArray();
    ConnectionLayout layout = new ConnectionLayout(64 * 16, 7 * 128, 1024);
    try (LocalRanks all = new LocalRanks(layout, Duration.ofSeconds(30), order)) {
      for (Operation operation : Operation.collectives()) {
        List<Algorithm> algorithms = new ArrayList<>(algorithms(operation));
        if (Algorithm.PAT.has(operation)) {
          algorithms.add(Algorithm.PAT);
        }
        for (Algorithm algorithm : algorithms) {
          for (Protocol protocol : protocols(algorithm)) {
            for (int root = 0; root < (rooted(operation) ? n : 1); root++) {
              CollectiveWork work =
                  new CollectiveWork(
                      operation,
                      algorithm,
                      protocol,
                      DataType.INT32,
                      RedOp.SUM,
                      root,
                      counts(random),
                      1,
                      protocol == Protocol.LL128 ? 6 * 128 : 512);
              check(all, work, random.nextBoolean(), random.nextInt(9), 72 + n);
            }
          }
        }
      }
    }
  }

  @Test
  void patHasMoreDistancesThanAConnectionHasSlots() {
    int n = 130;
    ConnectionLayout layout = new ConnectionLayout(64 * 16, 0, 1024);
    try (LocalRanks ranks = new LocalRanks(n, layout, Duration.ofSeconds(30))) {
      for (Operation operation : List.of(Operation.ALL_GATHER, Operation.REDUCE_SCATTER)) {
        CollectiveWork work =
            new CollectiveWork(
                operation,
                Algorithm.PAT,
                Protocol.SIMPLE,
                DataType.INT64,
                RedOp.SUM,
                0,
                25,
                1,
                1024);
        check(ranks, work, /* inPlace= */ false, 0, n);
      }
    }
  }

  /** Receivers read even the smallest steps from the senders' buffers. */
  @ParameterizedTest
  @ValueSource(ints = {2, 3, 5, 8})
  void everyKernelIsRightBySingleCopies(int n) {
    SingleCopy inProcess = new SingleCopy(1, SingleCopy.NEVER, Level.DEBUG);
    everyKernelIsRight(n, Operation.collectives(), List.of(), inProcess);
    SingleCopy betweenProcesses = new SingleCopy(SingleCopy.NEVER, 1, Level.DEBUG);
    everyKernelIsRight(n, Operation.collectives(), List.of(), betweenProcesses);
    SingleCopy mapped = new SingleCopy(SingleCopy.NEVER, SingleCopy.NEVER, 1, Level.DEBUG);
    everyKernelIsRight(n, Operation.collectives(), List.of(), mapped);
  }

  @ParameterizedTest
  @ValueSource(longs = {1L << 22, 1L << 31, 1L << 32, 1L << 62})
  void everySingleCopyIsRightAtLateSteps(long around) {
    ConnectionLayout layout = new ConnectionLayout(64 * 16, 7 * 128, 1024);
    for (Operation operation : Operation.collectives()) {
      for (Algorithm algorithm : algorithms(operation)) {
        SingleCopy smallest = new SingleCopy(1, SingleCopy.NEVER, Level.DEBUG);
        try (LocalRanks ranks = new LocalRanks(3, layout, Duration.ofSeconds(30), smallest)) {
          ranks.goOnAt(around - 3);
          CollectiveWork work =
              new CollectiveWork(
                  operation,
                  algorithm,
                  Protocol.SIMPLE,
                  DataType.INT32,
                  RedOp.SUM,
                  0,
                  3000,
                  1,
                  512);
          check(ranks, work, /* inPlace= */ false, 0, around);
          check(ranks, work, /* inPlace= */ true, 1, around);
        }
      }
    }
  }

  private static void everyKernelIsRight(int n, List<Operation> collectives, List<Algorithm> only) {
    everyKernelIsRight(n, collectives, only, SingleCopy.OFF);
  }

  private static void everyKernelIsRight(
      int n, List<Operation> collectives, List<Algorithm> only, SingleCopy singleCopy) {
    long seed = 42 + n;
    Random random = new Random(seed);
    ConnectionLayout layout = new ConnectionLayout(64 * 16, 7 * 128, 1024);
    try (LocalRanks ranks = new LocalRanks(n, layout, Duration.ofSeconds(30), singleCopy)) {
      for (Operation operation : collectives) {
        for (Algorithm algorithm : only.isEmpty() ? algorithms(operation) : only) {
          for (Protocol protocol : protocols(algorithm)) {
            for (DataType type : isWhole(protocol, singleCopy) ? types(n) : ONE_TYPE) {
              for (RedOp op : ops(operation, n, singleCopy, random)) {
                int count = counts(random);
                CollectiveWork work =
                    new CollectiveWork(
                        operation,
                        algorithm,
                        protocol,
                        type,
                        op,
                        rooted(operation) ? random.nextInt(n) : 0,
                        count,
                        1,
                        switch (protocol) {
                          case LL -> 512;
                          case LL128 -> 6 * 128;
                          case SIMPLE -> 1024;
                        });
                boolean inPlace = random.nextBoolean();
                check(ranks, work, inPlace, random.nextInt(9), seed);
              }
            }
          }
        }
      }
    }
  }

  /** Connections that have gone on for long: their steps pass a place where something repeats. */
  @ParameterizedTest
  @ValueSource(longs = {1L << 22, 1L << 30, 1L << 31, 1L << 32, 1L << 48, 1L << 62})
  void everyKernelIsRightAtLateSteps(long around) {
    int n = 3;
    ConnectionLayout layout = new ConnectionLayout(64 * 16, 7 * 128, 1024);
    for (Operation operation : Operation.collectives()) {
      List<Algorithm> algorithms = new ArrayList<>(algorithms(operation));
      if (operation == Operation.ALL_GATHER || operation == Operation.REDUCE_SCATTER) {
        algorithms.add(Algorithm.PAT);
      }
      for (Algorithm algorithm : algorithms) {
        for (Protocol protocol : protocols(algorithm)) {
          try (LocalRanks ranks = new LocalRanks(n, layout, Duration.ofSeconds(30))) {
            ranks.goOnAt(around - 3);
            CollectiveWork work =
                new CollectiveWork(
                    operation, algorithm, protocol, DataType.INT32, RedOp.SUM, 0, 3000, 1, 512);
            check(ranks, work, /* inPlace= */ false, 0, around);
          }
        }
      }
    }
  }

  @ParameterizedTest
  @ValueSource(longs = {1L << 30, 1L << 31, 1L << 32, 1L << 48, 1L << 62})
  void everyNvlsKernelIsRightAtLateSteps(long around) {
    ConnectionLayout layout = new ConnectionLayout(64 * 16, 0, 1024);
    for (Operation operation : Operation.collectives()) {
      if (Nvls.has(operation, DataType.INT32, RedOp.SUM)) {
        try (LocalRanks ranks = new LocalRanks(3, layout, Duration.ofSeconds(30), 512)) {
          ranks.goOnAt(around - 3);
          CollectiveWork work =
              new CollectiveWork(
                  operation,
                  Algorithm.NVLS,
                  Protocol.SIMPLE,
                  DataType.INT32,
                  RedOp.SUM,
                  0,
                  9000,
                  1,
                  1 << 20);
          check(ranks, work, /* inPlace= */ false, 0, around);
        }
      }
    }
  }

  /** Both the steps inside each machine and those of the trees between machines are late. */
  @ParameterizedTest
  @ValueSource(longs = {1L << 30, 1L << 31, 1L << 32, 1L << 48, 1L << 62})
  void everyNvlsTreeIsRightAtLateSteps(long around) {
    ConnectionLayout layout = new ConnectionLayout(64 * 16, 0, 1024);
    List<List<Integer>> machines = List.of(List.of(0, 1), List.of(2, 3, 4), List.of(5, 6));
    try (LocalRanks ranks = new LocalRanks(layout, Duration.ofSeconds(30), 512, machines)) {
      ranks.goOnAt(around - 3);
      CollectiveWork work =
          new CollectiveWork(
              Operation.ALL_REDUCE,
              Algorithm.NVLS_TREE,
              Protocol.SIMPLE,
              DataType.INT32,
              RedOp.SUM,
              0,
              9000,
              1,
              1 << 20);
      check(ranks, work, /* inPlace= */ false, 0, around);
      check(ranks, work, /* inPlace= */ true, 1, around);
    }
  }

  /** NVLS with slots so small that its steps and credits wrap round many times. */
  @ParameterizedTest
  @ValueSource(ints = {2, 3, 4, 5, 6, 7, 8})
  void everyNvlsKernelIsRight(int n) {
    long seed = 52 + n;
    Random random = new Random(seed);
    ConnectionLayout layout = new ConnectionLayout(64 * 16, 0, 1024);
    int done = 0;
    try (LocalRanks ranks = new LocalRanks(n, layout, Duration.ofSeconds(30), 512)) {
      for (Operation operation : Operation.collectives()) {
        for (DataType type : DataType.values()) {
          for (RedOp op : ops(operation)) {
            for (int turn = 0; turn < 3 && Nvls.has(operation, type, op); turn++) {
              int count = turn == 0 ? 3000 * n : counts(random);
              CollectiveWork work =
                  new CollectiveWork(
                      operation, Algorithm.NVLS, Protocol.SIMPLE, type, op, 0, count, 1, 1 << 20);
              check(ranks, work, random.nextBoolean(), random.nextInt(9), seed);
              done++;
            }
          }
        }
      }
    }
    int reductions = 8 * 2 + 6 * 2; // sums and means, least and greatest
    assertEquals(3 * (2 * reductions + DataType.values().length), done);
  }

  /** NVLS inside machines and trees between them, in whatever numbers of ranks. */
  @ParameterizedTest
  @ValueSource(strings = {"1 1", "1 1 1", "2 2", "3 2", "1 3 2", "2 2 2", "3 3 3", "2 1 2 3 1"})
  void everyNvlsTreeIsRight(String sizes) {
    List<List<Integer>> machines = new ArrayList<>();
    int n = 0;
    for (String size : sizes.split(" ")) {
      List<Integer> ranks = new ArrayList<>();
      for (int r = 0; r < Integer.parseInt(size); r++) {
        ranks.add(n++);
      }
      machines.add(ranks);
    }
    long seed = 62 + n;
    Random random = new Random(seed);
    // Steps of 512 bytes: their slots and credits wrap round many times.
    ConnectionLayout layout = new ConnectionLayout(64 * 16, 0, 1024);
    try (LocalRanks ranks = new LocalRanks(layout, Duration.ofSeconds(30), 512, machines)) {
      for (DataType type : DataType.values()) {
        for (RedOp op : RedOp.values()) {
          for (int turn = 0; turn < 3 && Nvls.has(Operation.ALL_REDUCE, type, op); turn++) {
            CollectiveWork work =
                new CollectiveWork(
                    Operation.ALL_REDUCE,
                    Algorithm.NVLS_TREE,
                    Protocol.SIMPLE,
                    type,
                    op,
                    0,
                    turn == 0 ? 3000 * n + 1 : counts(random),
                    1,
                    1 << 20);
            check(ranks, work, random.nextBoolean(), random.nextInt(9), seed);
          }
        }
      }
    }
  }

  /**
   * Rings within hosts and between them, also where the ranks are not numbered host after host, in
   * any order on each.
   */
  @ParameterizedTest
  @ValueSource(strings = {"AABB", "ABBA", "AABBCC", "AAABBB", "ABCABC", "AAABBBCCC", "AABBCCDD"})
  void everyHierarchicalKernelIsRight(String hosts) {
    for (SingleCopy singleCopy :
        List.of(SingleCopy.OFF, new SingleCopy(1, SingleCopy.NEVER, Level.DEBUG))) {
      long seed = 72 + hosts.length();
      Random random = new Random(seed);
      ConnectionLayout layout = new ConnectionLayout(64 * 16, 0, 1024);
      try (LocalRanks ranks = new LocalRanks(layout, hosts(hosts, random), singleCopy)) {
        for (Operation operation : Operation.collectives()) {
          if (Algorithm.HIERARCHICAL.has(operation)) {
            everyHierarchicalKernelIsRight(ranks, operation, random, seed);
          }
        }
      }
    }
  }

  private static void everyHierarchicalKernelIsRight(
      LocalRanks ranks, Operation operation, Random random, long seed) {
    for (DataType type : types(ranks.n)) {
      for (RedOp op : ops(operation)) {
        CollectiveWork work =
            new CollectiveWork(
                operation,
                Algorithm.HIERARCHICAL,
                Protocol.SIMPLE,
                type,
                op,
                0,
                counts(random),
                1,
                1024);
        check(ranks, work, random.nextBoolean(), random.nextInt(9), seed);
      }
    }
  }

  /** The ranks of each host, in any order; a letter is a rank's host. */
  private static List<List<Integer>> hosts(String letters, Random random) {
    List<List<Integer>> hosts = new ArrayList<>();
    for (int host : letters.chars().distinct().toArray()) {
      List<Integer> ranks = new ArrayList<>();
      for (int rank = 0; rank < letters.length(); rank++) {
        if (letters.charAt(rank) == host) {
          ranks.add(rank);
        }
      }
      Collections.shuffle(ranks, random);
      hosts.add(ranks);
    }
    return hosts;
  }

  private static int counts(Random random) {
    return switch (random.nextInt(4)) {
      case 0 -> random.nextInt(3);
      case 1 -> random.nextInt(100);
      case 2 -> random.nextInt(3000);
      default -> 1024;
    };
  }

  private static List<Algorithm> algorithms(Operation operation) {
    return Stream.of(
            Algorithm.TREE,
            Algorithm.RING,
            Algorithm.ONE_SHOT,
            Algorithm.TWO_SHOT,
            Algorithm.DOUBLING)
        .filter(algorithm -> algorithm.has(operation))
        .toList();
  }

  /** True unless a protocol only takes turns on the connections with the one that exposes. */
  private static boolean isWhole(Protocol protocol, SingleCopy singleCopy) {
    return singleCopy.equals(SingleCopy.OFF) || protocol == Protocol.SIMPLE;
  }

  /** Sums of more ranks than that are not exact in the smallest types. */
  private static DataType[] types(int n) {
    return n <= 8
        ? DataType.values()
        : new DataType[] {DataType.INT32, DataType.FLOAT32, DataType.FLOAT64};
  }

  private static Protocol[] protocols(Algorithm algorithm) {
    return algorithm == Algorithm.PAT ? new Protocol[] {Protocol.SIMPLE} : Protocol.values();
  }

  private static List<RedOp> ops(Operation operation) {
    return operation == Operation.ALL_GATHER || operation == Operation.BROADCAST
        ? List.of(RedOp.SUM)
        : List.of(RedOp.values());
  }

  /**
   * Among many ranks one is enough: what they send to whom does not depend on it. So is one where
   * another process's memory is read: the way to read it does not depend on it either.
   */
  private static List<RedOp> ops(Operation operation, int n, SingleCopy singleCopy, Random random) {
    List<RedOp> all = ops(operation);
    boolean processes = singleCopy.betweenProcesses() == 1 || singleCopy.mapped() == 1;
    return n <= 9 && !processes ? all : List.of(all.get(random.nextInt(all.size())));
  }

  private static boolean rooted(Operation operation) {
    return operation == Operation.BROADCAST || operation == Operation.REDUCE;
  }

  private static void check(
      LocalRanks ranks, CollectiveWork work, boolean inPlace, int shift, long seed) {
    Elements elements = new Elements(work.type(), work.op(), ranks.n, seed);
    List<Buffers> buffers = new ArrayList<>();
    for (int rank = 0; rank < ranks.n; rank++) {
      Buffers own = new Buffers(ranks.device, work, rank, ranks.n, inPlace, shift);
      buffers.add(own);
      int count = (int) work.count() * Buffers.sends(work, ranks.n);
      own.send.write(0, elements.data(rank, 0, count));
      KernelCommunicator communicator = ranks.communicators.get(rank);
      communicator.launch(communicator.prepare(work), own.send, own.recv, ranks.streams.get(rank));
    }
    ranks.streams.forEach(DeviceStream::isIdle);
    ranks.streams.forEach(DeviceStream::synchronize);
    // All ranks get the same of an all-reduce.
    int[] sums =
        work.operation() == Operation.ALL_REDUCE
            ? elements.expected(0, (int) work.count())
            : new int[0];
    for (int rank = 0; rank < ranks.n; rank++) {
      String place = (inPlace ? " in place" : "") + ", rank " + rank + ", seed " + seed;
      int wrong = firstWrong(work, elements, sums, rank, ranks.n, buffers.get(rank));
      assertEquals(-1, wrong, () -> work + place);
      assertTrue(buffers.get(rank).edgesAreIntact(), () -> work + place);
      buffers.get(rank).close();
    }
  }

  private static int firstWrong(
      CollectiveWork work, Elements elements, int[] sums, int rank, int n, Buffers buffers) {
    ByteBuffer data = buffers.received();
    return switch (work.operation()) {
      case ALL_REDUCE -> elements.firstWrong(data, sums);
      case REDUCE -> rank == work.root() ? elements.firstWrong(data, 0) : -1;
      case REDUCE_SCATTER -> elements.firstWrong(data, rank * work.count());
      case BROADCAST -> elements.firstWrongCopy(data, work.root(), 0);
      default -> {
        int wrong = -1;
        int part = data.capacity() / n;
        for (int from = 0; from < n && wrong < 0; from++) {
          wrong = elements.firstWrongCopy(data.slice(from * part, part), from, 0);
        }
        yield wrong;
      }
    };
  }
}
