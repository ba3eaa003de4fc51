package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Operation;

/** Quantised sums that go hierarchically, among ranks that say they are on several hosts. */
@Timeout(600)
class QuantisedHostsTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);
  private static final CommunicatorConfig PLAIN = CommunicatorConfig.defaults();
  static final CommunicatorConfig HIERARCHICAL = PLAIN.with("NCCL_ALGO", "Hierarchical");

  private static final QuantisedCase SUM =
      new QuantisedCase(
          Operation.ALL_REDUCE, DataType.BFLOAT16, DataType.FLOAT8_E4M3, 128, RedOp.SUM, 40_000);

  /** The ranks of each host. */
  static List<List<Integer>> ranks(String hosts) {
    return hosts
        .chars()
        .distinct()
        .mapToObj(
            host ->
                IntStream.range(0, hosts.length())
                    .filter(rank -> hosts.charAt(rank) == host)
                    .boxed()
                    .toList())
        .toList();
  }

  private static Communicator view(Communicator comm, QuantisedCase each) {
    return comm.withOptions(CallOptions.defaults().withQuantisation(each.format(), each.block()));
  }

  private static String explained(Ranks ranks, QuantisedCase each) {
    return view(ranks.communicators.get(0), each)
        .explain(each.operation(), each.count(), each.type());
  }

  /** Every type, format, block, operator and operation; the same bits on all ranks. */
  @ParameterizedTest
  @ValueSource(strings = {"aabb", "abab", "aaabbb", "abbaab", "aabbcc", "abcabc"})
  void everyCase(String hosts) throws Exception {
    System.out.println("seed " + SEED);
    try (Ranks ranks = Ranks.onHosts(hosts, HIERARCHICAL)) {
      assertTrue(explained(ranks, SUM).contains("chosen: hierarchically"));
      ranks.run(
          (comm, stream) -> {
            for (QuantisedCase each : QuantisedSumsTest.cases()) {
              each.check(comm, stream, SEED, data -> each.expected(data, ranks(hosts)));
            }
          });
    }
  }

  /** Without a setting: on the networks of these tests, by predicted time. */
  @ParameterizedTest
  @CsvSource({"aabb, true", "aaabbb, true", "aab, false", "aabbb, false", "abc, false"})
  void hostsWithAsManyRanksGoHierarchically(String hosts, boolean hierarchically) throws Exception {
    try (Ranks ranks = Ranks.onHosts(hosts, PLAIN)) {
      String text = explained(ranks, SUM);
      assertEquals(hierarchically, text.contains("chosen: hierarchically"), text);
      ranks.run(
          (comm, stream) ->
              SUM.check(
                  comm,
                  stream,
                  SEED,
                  data -> hierarchically ? SUM.expected(data, ranks(hosts)) : SUM.expected(data)));
    }
  }

  /** The bits would depend on the way, and so on the size. */
  @Test
  void sizeInvariantSumsExchangeWithAll() throws Exception {
    CommunicatorConfig config = PLAIN.with("NCCL4J_DETERMINISM", "SIZE_INVARIANT");
    try (Ranks ranks = Ranks.onHosts("aabb", config)) {
      assertFalse(explained(ranks, SUM).contains("hierarchically"));
      ranks.run((comm, stream) -> SUM.check(comm, stream, SEED));
    }
  }

  /** Also of a view. */
  @ParameterizedTest
  @ValueSource(strings = {"Ring", "Tree", "^Hierarchical"})
  void anotherAlgorithmExchangesWithAll(String algorithm) throws Exception {
    try (Ranks ranks = Ranks.onHosts("aabb", PLAIN.with("NCCL_ALGO", algorithm))) {
      String text = explained(ranks, SUM);
      assertFalse(text.contains("hierarchically"), text);
      ranks.run((comm, stream) -> SUM.check(comm, stream, SEED));
      ranks.run(
          (comm, stream) -> {
            CallOptions options =
                CallOptions.defaults()
                    .withQuantisation(SUM.format(), SUM.block())
                    .withAlgorithm("Hierarchical");
            float[][] data = data(SUM, comm.nRanks());
            try (DeviceMemory memory = SUM.memory(comm, data[comm.rank()])) {
              SUM.call(comm.withOptions(options), memory, memory, stream);
              stream.synchronize();
              SUM.compare(comm, SUM.expected(data, ranks("aabb")), SUM.floats(memory));
            }
          });
    }
  }

  static float[][] data(QuantisedCase each, int n) {
    float[][] data = new float[n][];
    for (int rank = 0; rank < n; rank++) {
      data[rank] = each.data(rank, n, SEED, /* adversarial= */ true);
    }
    return data;
  }

  /** Bytes that the ranks of a host send over the network. */
  private static long between(String communicator, List<Integer> host) {
    return host.stream()
        .flatMap(rank -> LinkTrafficTest.sent(communicator, rank, "NET").values().stream())
        .mapToLong(Long::longValue)
        .sum();
  }

  /**
   * As many bytes as explain says leave each host: in a part for each of 4 or 6 ranks are 79 or 53
   * blocks of codes and scales, and the bytes of its kind.
   */
  @ParameterizedTest
  @CsvSource({
    "aabb, ALL_REDUCE, Hierarchical",
    "aabb, REDUCE_SCATTER, Hierarchical",
    "aabbcc, ALL_REDUCE, Hierarchical",
    "aaabbb, ALL_REDUCE, Hierarchical",
    "aabb, ALL_REDUCE, Ring",
    "aaabbb, REDUCE_SCATTER, Ring",
    "aab, REDUCE_SCATTER, Ring"
  })
  void bytesBetweenHostsAreAsStated(String hosts, Operation operation, String algorithm)
      throws Exception {
    QuantisedCase each =
        new QuantisedCase(
            operation, DataType.BFLOAT16, DataType.FLOAT8_E4M3, 128, RedOp.SUM, 40_000);
    String name = "bytes-" + hosts + operation + algorithm;
    List<List<Integer>> byHost = ranks(hosts);
    int n = hosts.length();
    int nHosts = byHost.size();
    int locals = byHost.get(0).size();
    boolean all = operation == Operation.ALL_REDUCE;
    long blocks = (each.count() + 127) / 128;
    long bytes = (all ? (blocks + n - 1) / n : blocks) * (128 + 4);
    long part = (bytes + 15) / 16 * 16 + 16L * 2 * DataType.BFLOAT16.ordinal();
    boolean hierarchical = algorithm.equals("Hierarchical");
    long expected =
        hierarchical
            ? (all ? 2 : 1) * locals * (nHosts - 1L) * part
            : locals * (n - locals) * part + (all ? (n - 1) * part : 0);
    CommunicatorConfig config = PLAIN.withName(name).with("NCCL_ALGO", algorithm);
    try (Ranks ranks = Ranks.onHosts(hosts, config)) {
      String text = explained(ranks, each);
      String stated =
          hierarchical
              ? "hierarchically %d:".formatted(expected)
              : "from a host to others: %d by".formatted(expected);
      assertTrue(text.contains(stated), () -> expected + " in " + text);
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory send = comm.device().allocate(2L * n * each.count());
                DeviceMemory recv = comm.device().allocate(2L * each.count())) {
              send.fill((byte) 0);
              each.call(view(comm, each), send, recv, stream);
              stream.synchronize();
            }
          });
      // A message of known bytes on each link to the other hosts comes behind all bytes of the sum.
      int known = 1000;
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = comm.device().allocate(known)) {
              data.fill((byte) 0);
              boolean ofFirst = byHost.get(0).contains(comm.rank());
              Group.run(
                  () -> {
                    for (int peer = 0; peer < n; peer++) {
                      if (ofFirst && !byHost.get(0).contains(peer)) {
                        comm.send(data, known, DataType.UINT8, peer, stream);
                      } else if (!ofFirst && byHost.get(0).contains(peer)) {
                        comm.recv(data, known, DataType.UINT8, peer, stream);
                      }
                    }
                  });
              stream.synchronize();
            }
          });
      long together = expected + (long) known * locals * (n - locals);
      LinkTrafficTest.until(() -> between(name, byHost.get(0)) >= together);
      assertEquals(together, between(name, byHost.get(0)));
    }
  }

  /** A view of one rank, or of one host, that goes another way than the others. */
  @ParameterizedTest
  @CsvSource({
    "aabb, 0, Hierarchical, ALL_REDUCE",
    "aabb, 3, Ring, ALL_REDUCE",
    "aabb, 01, Ring, ALL_REDUCE",
    "aabb, 0, Ring, REDUCE_SCATTER",
    "abab, 02, Hierarchical, REDUCE_SCATTER"
  })
  void differentWaysAreAnError(String hosts, String some, String theirs, Operation operation)
      throws Exception {
    String others = theirs.equals("Ring") ? "Hierarchical" : "Ring";
    differ(
        hosts,
        (comm, stream) -> {
          boolean isSome = some.contains(Integer.toString(comm.rank()));
          sum(comm, stream, isSome ? theirs : others, operation);
        });
  }

  /** The parts of both have as many bytes. */
  @ParameterizedTest
  @ValueSource(strings = {"Ring", "Hierarchical"})
  void differentOperationsAreAnError(String algorithm) throws Exception {
    differ(
        "aabb",
        (comm, stream) ->
            sum(
                comm,
                stream,
                algorithm,
                comm.rank() == 1 ? Operation.REDUCE_SCATTER : Operation.ALL_REDUCE));
  }

  /** An all-reduce of 4096 elements, or a reduce-scatter of 1024 to each of four ranks. */
  private static void sum(
      Communicator comm, DeviceStream stream, String algorithm, Operation operation) {
    boolean all = operation == Operation.ALL_REDUCE;
    QuantisedCase each =
        new QuantisedCase(
            operation, SUM.type(), SUM.format(), SUM.block(), SUM.op(), all ? 4096 : 1024);
    Communicator view =
        comm.withOptions(
            CallOptions.defaults()
                .withQuantisation(each.format(), each.block())
                .withAlgorithm(algorithm));
    try (DeviceMemory send = comm.device().allocate(2 * 4096);
        DeviceMemory recv = comm.device().allocate(2L * each.count())) {
      send.fill((byte) 0);
      each.call(view, send, recv, stream);
      stream.synchronize();
    }
  }

  /** At least one rank says that the calls differ, so that all end. */
  private static void differ(String hosts, Ranks.Body body) throws Exception {
    List<ErrorId> ids = new ArrayList<>();
    try (Ranks ranks = Ranks.onHosts(hosts, PLAIN)) {
      for (Future<?> each : ranks.start(body)) {
        try {
          each.get(300, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
          ids.add(assertInstanceOf(NcclException.class, e.getCause()).id());
        }
      }
    }
    assertTrue(ids.contains(ErrorId.CALLS_DIFFER), ids::toString);
  }

  /** As without hosts: over many calls the error of the mean goes to 0. */
  @ParameterizedTest
  @ValueSource(strings = {"aabb", "abcabc"})
  void errorFeedback(String hosts) throws Exception {
    try (Ranks ranks = Ranks.onHosts(hosts, HIERARCHICAL)) {
      for (Operation what : new Operation[] {Operation.ALL_REDUCE, Operation.REDUCE_SCATTER}) {
        for (RedOp op : new RedOp[] {RedOp.SUM, RedOp.AVG}) {
          QuantisedCase each =
              new QuantisedCase(what, DataType.FLOAT32, DataType.INT8, 32, op, 1000);
          ranks.run((comm, stream) -> QuantisedSumsTest.repeat(each, comm, stream, 64));
        }
      }
    }
  }

  /** Fewer blocks than ranks: some have no share. */
  @Test
  void errorFeedbackOfFewElements() throws Exception {
    try (Ranks ranks = Ranks.onHosts("aabb", HIERARCHICAL)) {
      for (int count : new int[] {17, 33, 70}) {
        QuantisedCase each =
            new QuantisedCase(
                Operation.ALL_REDUCE, DataType.FLOAT32, DataType.FLOAT8_E4M3, 32, RedOp.SUM, count);
        ranks.run((comm, stream) -> QuantisedSumsTest.repeat(each, comm, stream, 64));
      }
    }
  }

  /** The errors of a rank's share, which lie at their elements, and no others. */
  @Test
  void aRankKeepsTheErrorsOfItsShare() throws Exception {
    int count = 1000;
    try (Ranks ranks = Ranks.onHosts("aabb", HIERARCHICAL)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(count, i -> 1 + 0.1 * (i % 7));
                DeviceMemory errors = Ranks.floats(count, i -> 0)) {
              comm.withOptions(
                      CallOptions.defaults()
                          .withQuantisation(DataType.INT8, 32)
                          .withErrorFeedback(errors))
                  .allReduce(data, data, count, DataType.FLOAT32, RedOp.SUM, stream);
              stream.synchronize();
              float[] kept = Ranks.floats(errors);
              int first = comm.rank() % 2 * 512; // four parts of 8 blocks of 32
              for (int i = 0; i < count; i++) {
                boolean own = i >= first && i < first + 512;
                // Of seven values the greatest is its scale's, without an error.
                assertTrue(own ? i % 7 == 6 || kept[i] != 0 : kept[i] == 0, "element " + i);
              }
            }
          });
    }
  }

  /** One thread drives all ranks, by plans and memories that are there and that are not. */
  @Test
  void inGroupsAndStreams() throws Exception {
    QuantisedCase small =
        new QuantisedCase(
            Operation.REDUCE_SCATTER, DataType.FLOAT16, DataType.INT8, 32, RedOp.AVG, 100);
    int n = 4;
    try (Ranks ranks = Ranks.onHosts("abab", HIERARCHICAL)) {
      float[][] large = data(SUM, n);
      float[][] few = data(small, n);
      for (int round = 0; round < 2; round++) {
        List<DeviceMemory> memories = new ArrayList<>();
        List<DeviceStream> others = new ArrayList<>();
        Group.run(
            () -> {
              for (int rank = 0; rank < n; rank++) {
                Communicator comm = ranks.communicators.get(rank);
                others.add(comm.device().createStream());
                memories.add(SUM.memory(comm, large[rank]));
                memories.add(small.memory(comm, few[rank]));
                DeviceMemory one = memories.get(2 * rank);
                DeviceMemory two = memories.get(2 * rank + 1);
                SUM.call(view(comm, SUM), one, one, ranks.streams.get(rank));
                small.call(view(comm, small), two, two.slice(200L * rank, 200), others.get(rank));
              }
            });
        for (int rank = 0; rank < n; rank++) {
          Communicator comm = ranks.communicators.get(rank);
          ranks.streams.get(rank).synchronize();
          others.get(rank).synchronize();
          DeviceMemory two = memories.get(2 * rank + 1).slice(200L * rank, 200);
          SUM.compare(comm, SUM.expected(large, ranks("abab")), SUM.floats(memories.get(2 * rank)));
          small.compare(comm, small.expected(few, ranks("abab")), small.floats(two));
        }
        memories.forEach(DeviceMemory::close);
        others.forEach(DeviceStream::close);
      }
    }
  }

  /** Of two of three hosts, with other numbers than its parent's. */
  @Test
  void aSplitGoesHierarchically() throws Exception {
    try (Ranks ranks = Ranks.onHosts("aabbcc", HIERARCHICAL)) {
      ranks.run(
          (comm, stream) -> {
            int color = comm.rank() < 4 ? 0 : Communicator.NO_COLOR;
            Optional<Communicator> split = comm.split(color, -comm.rank());
            if (split.isPresent()) {
              try (Communicator child = split.get()) {
                SUM.check(child, stream, SEED, data -> SUM.expected(data, ranks("aabb")));
              }
            }
          });
    }
  }

  /** Plans that a suspension ends. */
  @Test
  void aViewOutlastsASuspension() throws Exception {
    try (Ranks ranks = Ranks.onHosts("aabb", HIERARCHICAL)) {
      ranks.run(
          (comm, stream) -> {
            float[][] data = data(SUM, comm.nRanks());
            Communicator view = view(comm, SUM);
            for (int round = 0; round < 2; round++) {
              try (DeviceMemory memory = SUM.memory(comm, data[comm.rank()])) {
                SUM.call(view, memory, memory, stream);
                stream.synchronize();
                SUM.compare(comm, SUM.expected(data, ranks("aabb")), SUM.floats(memory));
              }
              comm.suspend();
              assertEquals(Map.of(), comm.memory());
              comm.resume();
            }
          });
    }
  }

  @Test
  void aWarmCallAllocatesNothing() throws Exception {
    int operations = 300;
    int n = 4;
    try (Ranks ranks = Ranks.onHosts("aabb", HIERARCHICAL)) {
      Allocation allocation = new Allocation(n, n * operations, List.of());
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = SUM.memory(comm, new float[SUM.count()])) {
              Communicator view = view(comm, SUM);
              allocation.measure(
                  () -> {
                    for (int i = 0; i < operations; i++) {
                      view.allReduce(data, data, 1000, SUM.type(), RedOp.SUM, stream);
                      stream.synchronize();
                    }
                  });
            }
          });
      allocation.assertNothing();
    }
  }
}
