package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/**
 * Ranks that call different things get an error that names both calls, soon, and never each other's
 * data; by default, without a check mode. Calls that only look different are right.
 */
@Timeout(600)
class CallsDifferTest {
  private static final DataType F32 = DataType.FLOAT32;
  private static final int BYTES = 64 << 10;
  private static final CommunicatorConfig CONFIG =
      CommunicatorConfig.defaults().withOperationTimeout(Duration.ofSeconds(60));

  /** A call on buffers of 64 KiB. */
  interface Call {
    void make(Communicator comm, DeviceMemory send, DeviceMemory recv, DeviceStream stream);
  }

  /**
   * Calls that rank 0 and the other ranks make.
   *
   * @param named of either, as the error names it
   */
  record Pair(Call first, Call others, String named, String namedToo) {}

  static Map<String, Pair> pairs() {
    Call sum = (c, s, r, t) -> c.allReduce(s, r, 512, F32, RedOp.SUM, t);
    String named = "all_reduce of 512 float (sum)";
    Map<String, Pair> pairs = new LinkedHashMap<>();
    pairs.put(
        "types",
        new Pair(
            sum,
            (c, s, r, t) -> c.allReduce(s, r, 512, DataType.INT32, RedOp.SUM, t),
            named,
            "all_reduce of 512 int32 (sum)"));
    pairs.put(
        "operators",
        new Pair(
            sum,
            (c, s, r, t) -> c.allReduce(s, r, 512, F32, RedOp.MAX, t),
            named,
            "all_reduce of 512 float (max)"));
    pairs.put(
        "collectives",
        new Pair(
            sum, (c, s, r, t) -> c.allGather(s, r, 512, F32, t), named, "all_gather of 512 float"));
    pairs.put(
        "counts",
        new Pair(
            (c, s, r, t) -> c.allReduce(s, r, 1024, F32, RedOp.SUM, t),
            sum,
            "all_reduce of 1024 float (sum)",
            named));
    pairs.put(
        "counts that go different ways",
        new Pair(
            (c, s, r, t) -> c.allReduce(s, r, 8, F32, RedOp.SUM, t),
            (c, s, r, t) -> c.allReduce(s, r, 16384, F32, RedOp.SUM, t),
            "all_reduce of 8 float (sum)",
            "all_reduce of 16384 float (sum)"));
    pairs.put(
        "roots",
        new Pair(
            (c, s, r, t) -> c.reduce(s, r, 512, F32, RedOp.SUM, 0, t),
            (c, s, r, t) -> c.reduce(s, r, 512, F32, RedOp.SUM, 1, t),
            "reduce of 512 float (sum), root 0",
            "reduce of 512 float (sum), root 1"));
    pairs.put(
        "functions",
        new Pair(
            (c, s, r, t) -> c.allReduce(s, r, 512, F32, function("first", true), t),
            (c, s, r, t) -> c.allReduce(s, r, 512, F32, function("second", true), t),
            "all_reduce of 512 float (%s)".formatted(named("first", true)),
            "all_reduce of 512 float (%s)".formatted(named("second", true))));
    pairs.put(
        "functions in steps",
        new Pair(
            (c, s, r, t) -> c.allReduce(s, r, 512, F32, function("first", false), t),
            (c, s, r, t) -> c.allReduce(s, r, 512, F32, function("second", false), t),
            ", for " + named("first", false),
            ", for " + named("second", false)));
    pairs.put(
        "functions of which one commutes",
        new Pair(
            (c, s, r, t) -> c.reduce(s, r, 4096, F32, function("first", true), 0, t),
            (c, s, r, t) -> c.reduce(s, r, 4096, F32, function("first", false), 0, t),
            named("first", true),
            named("first", false)));
    return pairs;
  }

  /** A function that returns its second operand. Each rank makes its own. */
  private static ReductionOperator function(String name, boolean commutes) {
    ReductionOperator.Builder builder =
        ReductionOperator.function(name, F32)
            .onHost((a, b, target, count, type) -> FunctionRound.copy(b, target));
    return (commutes ? builder : builder.notCommutative()).build();
  }

  private static String named(String name, boolean commutes) {
    return "function %04x".formatted(function(name, commutes).mark(Device.Kind.HOST));
  }

  /** Calls of two ranks that both send, or both receive: neither gets data of the other's call. */
  static Map<String, Pair> oneSided() {
    Call first = (c, s, r, t) -> c.broadcast(s, r, 512, F32, 0, t);
    Call second = (c, s, r, t) -> c.broadcast(s, r, 512, F32, 1, t);
    Call reduce = (c, s, r, t) -> c.reduce(s, r, 512, F32, RedOp.SUM, 0, t);
    String named = "broadcast of 512 float, root 0";
    String reduced = "reduce of 512 float (sum), root 0";
    Map<String, Pair> pairs = new LinkedHashMap<>();
    pairs.put(
        "two roots that send", new Pair(first, second, named, "broadcast of 512 float, root 1"));
    pairs.put(
        "two ranks that expect another root",
        new Pair(second, first, "broadcast of 512 float, root 1", named));
    pairs.put("broadcast and reduce that both send", new Pair(first, reduce, named, reduced));
    pairs.put("broadcast and reduce that both receive", new Pair(reduce, first, reduced, named));
    return pairs;
  }

  @TestFactory
  Stream<DynamicTest> callsWithoutDataForEachOtherAreNamed() {
    return Stream.concat(Stream.of(Map.<String, String>of()), networks())
        .flatMap(
            way ->
                oneSided().entrySet().stream()
                    .map(
                        pair ->
                            DynamicTest.dynamicTest(
                                pair.getKey() + " " + way,
                                () -> assertNamed(pair.getValue(), way))));
  }

  /** With one rank a host. */
  @TestFactory
  Stream<DynamicTest> bothCallsAreNamedOverParallelTrees() {
    Call gather = (c, s, r, t) -> c.allGather(s, r, 512, F32, t);
    Call scatter = (c, s, r, t) -> c.reduceScatter(s, r, 512, F32, RedOp.SUM, t);
    Map<String, Pair> pairs = new LinkedHashMap<>();
    pairs.put(
        "counts",
        new Pair(
            gather,
            (c, s, r, t) -> c.allGather(s, r, 1024, F32, t),
            "all_gather of 512 float",
            "all_gather of 1024 float"));
    pairs.put(
        "types",
        new Pair(
            gather,
            (c, s, r, t) -> c.allGather(s, r, 512, DataType.INT32, t),
            "all_gather of 512 float",
            "all_gather of 512 int32"));
    pairs.put(
        "operators",
        new Pair(
            scatter,
            (c, s, r, t) -> c.reduceScatter(s, r, 512, F32, RedOp.MAX, t),
            "reduce_scatter of 512 float (sum)",
            "reduce_scatter of 512 float (max)"));
    pairs.put(
        "collectives",
        new Pair(gather, scatter, "all_gather of 512 float", "reduce_scatter of 512 float (sum)"));
    CommunicatorConfig pat = CONFIG.with("NCCL_ALGO", "PAT");
    return pairs.entrySet().stream()
        .map(
            pair ->
                DynamicTest.dynamicTest(
                    pair.getKey(),
                    () -> assertNamed(pair.getValue(), errors(hosts(pat), pair.getValue()))));
  }

  private static Ranks hosts(CommunicatorConfig pat) throws Exception {
    Ranks ranks = SeveralHosts.of(3, 1, pat);
    assertEquals(
        Algorithm.PAT,
        ranks.communicators.get(0).chosenAlgorithm(Operation.ALL_GATHER, 512, F32).algorithm());
    return ranks;
  }

  private static Stream<Map<String, String>> ways() {
    List<Map<String, String>> ways = new ArrayList<>();
    ways.add(Map.of());
    for (String protocol : List.of("LL", "LL128", "Simple")) {
      for (String algorithm : List.of("Ring", "OneShot")) {
        ways.add(Map.of("NCCL_PROTO", protocol, "NCCL_ALGO", "all_reduce:" + algorithm));
      }
    }
    return ways.stream();
  }

  @TestFactory
  Stream<DynamicTest> bothCallsAreNamed() {
    return pairs().entrySet().stream()
        .flatMap(
            pair ->
                ways()
                    .map(
                        way ->
                            DynamicTest.dynamicTest(
                                pair.getKey() + " " + way,
                                () -> assertNamed(pair.getValue(), way))));
  }

  static CommunicatorConfig config(Map<String, String> way) {
    CommunicatorConfig config = CONFIG;
    for (Map.Entry<String, String> setting : way.entrySet()) {
      config = config.with(setting.getKey(), setting.getValue());
    }
    return config;
  }

  private static void assertNamed(Pair pair, Map<String, String> way) throws Exception {
    assertNamed(pair, errors(2, config(way), pair));
  }

  private static void assertNamed(Pair pair, List<NcclException> errors) {
    for (NcclException error : errors) {
      if (error.id() != ErrorId.RANK_FAILED) { // which another rank has told
        assertEquals(ErrorId.CALLS_DIFFER, error.id(), error.getMessage());
      }
      assertTrue(error.getMessage().contains("make different calls"), error.getMessage());
      assertTrue(error.getMessage().contains(pair.named), error.getMessage());
      assertTrue(error.getMessage().contains(pair.namedToo), error.getMessage());
    }
  }

  /** Ways between hosts. */
  private static Stream<Map<String, String>> networks() {
    Map<String, String> sockets =
        Map.of("NCCL_P2P_DISABLE", "1", "NCCL_SHM_DISABLE", "1", "NCCL_SOCKET_IFNAME", "lo");
    Map<String, String> verbs =
        Map.of(
            "NCCL_P2P_DISABLE",
            "1",
            "NCCL_SHM_DISABLE",
            "1",
            "NCCL_NET",
            "IB",
            "NCCL_IBVERBS_LIB",
            FakeVerbsLibrary.path());
    return Stream.of(sockets, verbs);
  }

  @TestFactory
  Stream<DynamicTest> bothCallsAreNamedOverNetworks() {
    return networks()
        .flatMap(
            network ->
                pairs().entrySet().stream()
                    .map(
                        pair ->
                            DynamicTest.dynamicTest(
                                pair.getKey() + " " + network,
                                () -> assertNamed(pair.getValue(), network))));
  }

  /** Each rank in a process, by shared memory and by sockets. */
  @TestFactory
  Stream<DynamicTest> bothCallsAreNamedAmongProcesses() {
    return Stream.concat(Stream.of(Map.<String, String>of()), networks().limit(1))
        .flatMap(
            way ->
                Stream.of("types", "counts that go different ways", "roots", "functions in steps")
                    .map(
                        pair ->
                            DynamicTest.dynamicTest(
                                pair + " " + way, () -> assertProcessesDiffer(pair, way))));
  }

  private static void assertProcessesDiffer(String name, Map<String, String> way) throws Exception {
    Pair pair = pairs().get(name);
    UniqueId id = UniqueId.create();
    Process other = OrderConflictTest.run(List.of(), differingRank(1, id, name, way));
    try (Communicator comm = Communicator.initRank(2, id, 0, Devices.host(), config(way));
        DeviceStream stream = comm.device().createStream()) {
      assertNamed(pair, List.of(error(comm, stream, pair.first)));
      String said = new String(other.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertTrue(said.contains("make different calls"), said);
      assertTrue(said.contains(pair.named) && said.contains(pair.namedToo), said);
    } finally {
      other.destroyForcibly();
    }
  }

  /** Each rank in a process that sees no other process, as on a host of its own. */
  @Test
  void bothCallsAreNamedAmongHostsWhereEachRankWaitsForTheOther() throws Exception {
    assumeTrue(Files.isExecutable(Path.of("/usr/bin/unshare")), "no /usr/bin/unshare");
    List<String> alone = OrderConflictTest.ALONE;
    assumeTrue(
        OrderConflictTest.run(alone, "true").waitFor() == 0,
        "unshare makes no process that is alone");
    String name = "two ranks that expect another root";
    Pair pair = oneSided().get(name);
    UniqueId id = UniqueId.create();
    List<Process> processes = new ArrayList<>();
    for (int rank = 0; rank < 2; rank++) {
      Map<String, String> way = Map.of("NCCL_HOSTID", "host" + rank, "NCCL_NET", "Socket");
      processes.add(OrderConflictTest.run(alone, differingRank(rank, id, name, way)));
    }
    for (Process process : processes) {
      String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertTrue(said.contains("make different calls"), said);
      assertTrue(said.contains(pair.named), said);
      assertTrue(said.contains(pair.namedToo), said);
      assertTrue(process.waitFor(300, TimeUnit.SECONDS));
    }
  }

  private static String[] differingRank(int rank, UniqueId id, String pair, Map<String, String> way)
      throws Exception {
    List<String> command = RankJvm.command();
    command.addAll(
        List.of(DifferingRank.class.getName(), Integer.toString(rank), id.toString(), pair));
    way.forEach((setting, value) -> command.add(setting + "=" + value));
    return command.toArray(String[]::new);
  }

  /** The errors of all ranks' calls. */
  private static List<NcclException> errors(int n, CommunicatorConfig config, Pair pair)
      throws Exception {
    return errors(new Ranks(n, config), pair);
  }

  private static List<NcclException> errors(Ranks made, Pair pair) throws Exception {
    NcclException[] errors = new NcclException[made.communicators.size()];
    try (Ranks ranks = made) {
      ranks.run(
          (comm, stream) ->
              errors[comm.rank()] =
                  error(comm, stream, comm.rank() == 0 ? pair.first : pair.others));
    }
    return List.of(errors);
  }

  /** Returns the error that a rank's call ends in. */
  static NcclException error(Communicator comm, DeviceStream stream, Call call) {
    try (DeviceMemory send = comm.device().allocate(BYTES);
        DeviceMemory recv = comm.device().allocate(BYTES)) {
      return assertThrows(
          NcclException.class,
          () -> {
            call.make(comm, send, recv, stream);
            stream.synchronize();
            // A rank that only sends has ended before the others find out.
            comm.allReduce(send, recv, 3, F32, RedOp.SUM, stream);
            stream.synchronize();
          });
    }
  }

  @Test
  void aSendThatIsLongerThanItsReceiveIsAnError() throws Exception {
    Pair pair =
        new Pair(
            (c, s, r, t) -> c.send(s, 1024, F32, 1, t),
            (c, s, r, t) -> c.recv(r, 512, F32, 0, t),
            "",
            "");
    for (NcclException error : errors(2, CONFIG, pair)) {
      assertEquals(ErrorId.CALLS_DIFFER, error.id(), error.getMessage());
    }
  }

  @Test
  void aPartThatIsLongerThanTheRootsCountIsAnError() throws Exception {
    Pair pair =
        new Pair(
            (c, s, r, t) -> c.gatherV(s, r, new long[] {0, 512}, null, F32, 0, t),
            (c, s, r, t) -> c.gatherV(s, r, new long[] {0, 1024}, null, F32, 0, t),
            "",
            "");
    for (NcclException error : errors(2, CONFIG, pair)) {
      assertEquals(ErrorId.CALLS_DIFFER, error.id(), error.getMessage());
    }
  }

  /** Two threads a rank, each with calls of its own: their order differs from rank to rank. */
  @Test
  void callsInAnotherOrderOnAnotherRankAreAnError() throws Exception {
    Call small = (c, s, r, t) -> c.allReduce(s, r, 100, F32, RedOp.SUM, t);
    Call large = (c, s, r, t) -> c.allReduce(s, r, 200, F32, RedOp.SUM, t);
    Pair pair =
        new Pair(
            (c, s, r, t) -> {
              small.make(c, s, r, t);
              large.make(c, s, r, t);
            },
            (c, s, r, t) -> {
              large.make(c, s, r, t);
              small.make(c, s, r, t);
            },
            "",
            "");
    for (NcclException error : errors(3, CONFIG, pair)) {
      assertEquals(ErrorId.CALLS_DIFFER, error.id(), error.getMessage());
      assertTrue(error.getMessage().contains("of 100 float"), error.getMessage());
      assertTrue(error.getMessage().contains("of 200 float"), error.getMessage());
    }
  }

  /** Ranks of other processes and hosts, and in place on some ranks alone. */
  @TestFactory
  Stream<DynamicTest> callsThatOnlyLookDifferentAreRight() {
    return Stream.concat(Stream.of(Map.<String, String>of()), networks())
        .map(way -> DynamicTest.dynamicTest("by " + way, () -> assertRight(config(way))));
  }

  private static void assertRight(CommunicatorConfig config) throws Exception {
    try (Ranks ranks = new Ranks(3, config)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory send = comm.device().allocate(BYTES);
                DeviceMemory recv = comm.device().allocate(BYTES)) {
              DeviceMemory from = comm.rank() == 1 ? recv : send;
              long[] counts = {1, 0, 70};
              for (int round = 0; round < 20; round++) {
                comm.allReduce(from, recv, 512, F32, RedOp.SUM, stream);
                comm.allReduce(send, recv, 0, F32, RedOp.SUM, stream);
                comm.allGatherV(send, recv, counts, new long[] {0, 1, 1}, F32, stream);
                int rank = comm.rank();
                comm.gatherV(send, recv, counts, null, F32, 1, stream);
                comm.scatterV(send, recv, counts, null, F32, 2, stream);
                comm.gather(send, recv, 7, F32, 2, stream);
                comm.gather(send, recv, 7, F32, 0, stream);
                comm.broadcast(send, recv, 9, F32, 1, stream);
                Group.run(
                    () -> {
                      comm.send(send, 16, F32, rank, stream);
                      comm.recv(recv, 16, F32, rank, stream);
                      comm.send(send, 5L + rank, F32, (rank + 1) % 3, stream);
                      // The same bytes as another type.
                      comm.recv(
                          recv, 4 * (5L + (rank + 2) % 3), DataType.INT8, (rank + 2) % 3, stream);
                    });
              }
              stream.synchronize();
            }
          });
    }
  }

  @Test
  void ranksThatJoinByOneIdHaveOneName() throws Exception {
    try (Communicator alone = Communicator.initRank(1, UniqueId.create(), 0, Devices.host())) {
      UniqueId id = UniqueId.create();
      CommunicatorConfig compared = CONFIG.with("NCCL_CHECK_MODE", "DEBUG_GLOBAL");
      List<CompletableFuture<Communicator>> joining = new ArrayList<>();
      for (int rank = 0; rank < 2; rank++) {
        joining.add(Communicator.initRankAsync(2, id, rank, Devices.host(), compared));
      }
      try (Ranks ranks = new Ranks(joining.stream().map(CompletableFuture::join).toList())) {
        List<String> names = ranks.communicators.stream().map(Communicator::name).toList();
        assertEquals(names.get(0), names.get(1));
        assertNotEquals(alone.name(), names.get(0));
        sum(ranks);
      }
    }
  }

  @Test
  void namesPlayNoPartWhereCallsAreCompared() throws Exception {
    UniqueId id = UniqueId.create();
    List<CompletableFuture<Communicator>> joining = new ArrayList<>();
    for (int rank = 0; rank < 2; rank++) {
      CommunicatorConfig own =
          CONFIG.with("NCCL_CHECK_MODE", "DEBUG_GLOBAL").withName("mine is " + rank);
      joining.add(Communicator.initRankAsync(2, id, rank, Devices.host(), own));
    }
    try (Ranks ranks = new Ranks(joining.stream().map(CompletableFuture::join).toList())) {
      sum(ranks);
    }
  }

  private static void sum(Ranks ranks) throws Exception {
    ranks.run(
        (comm, stream) -> {
          try (DeviceMemory memory = comm.device().allocate(BYTES)) {
            comm.allReduce(memory, memory, 512, F32, RedOp.SUM, stream);
            stream.synchronize();
          }
        });
  }

  @Test
  void allRanksCompareCallsOrNone() {
    CommunicatorConfig config = CommunicatorConfig.defaults();
    UniqueId id = UniqueId.create();
    List<CompletableFuture<Communicator>> joining = new ArrayList<>();
    for (int rank = 0; rank < 2; rank++) {
      CommunicatorConfig own =
          config.with("NCCL_CHECK_MODE", rank == 0 ? "DEBUG_GLOBAL" : "DEFAULT");
      joining.add(Communicator.initRankAsync(2, id, rank, Devices.host(), own));
    }
    for (CompletableFuture<Communicator> each : joining) {
      Throwable thrown = assertThrows(Exception.class, each::join).getCause();
      assertTrue(
          thrown.getMessage().contains("different values of NCCL_CHECK_MODE"), thrown.getMessage());
    }
  }
}
