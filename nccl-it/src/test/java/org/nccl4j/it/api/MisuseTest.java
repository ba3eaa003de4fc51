package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.logging.Filter;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
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
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.operation.Operation;

/** Each wrong call has its error and its message, and leaves the communicator usable. */
@Timeout(600)
class MisuseTest {
  private static final DataType F32 = DataType.FLOAT32;

  private static Stream<MisuseCase> wrongCalls() {
    Class<InvalidArgumentException> arg = InvalidArgumentException.class;
    Class<InvalidUsageException> use = InvalidUsageException.class;
    return Stream.of(
        new MisuseCase(
            arg, "send buffer is null", (c, m, s) -> c.allReduce(null, m, 1, F32, RedOp.SUM, s)),
        new MisuseCase(
            arg, "root 2 is not a rank of 2", (c, m, s) -> c.broadcast(m, m, 1, F32, 2, s)),
        new MisuseCase(arg, "peer 7 is not a rank", (c, m, s) -> c.send(m, 1, F32, 7, s)),
        new MisuseCase(use, "not started on this thread", (c, m, s) -> Group.end()),
        new MisuseCase(
            use,
            "registerWindow is called in a group that is simulated",
            (c, m, s) -> Group.simulate(() -> c.registerWindow(m))),
        new MisuseCase(
            use,
            "a group is simulated inside another",
            (c, m, s) -> Group.run(() -> Group.simulate(() -> {}))),
        new MisuseCase(
            arg,
            "PutSignal has no algorithms",
            (c, m, s) -> c.chosenAlgorithm(Operation.PUT_SIGNAL, 1, F32)),
        new MisuseCase(
            arg, "Send has no plan of its own", (c, m, s) -> c.prepare(Operation.SEND, 1, F32)),
        new MisuseCase(arg, "-1", (c, m, s) -> c.prepare(Operation.ALL_REDUCE, -1, F32)));
  }

  @TestFactory
  Stream<DynamicTest> wrongCallsAreNamed() {
    return wrongCalls().map(wrong -> dynamicTest(wrong.message(), wrong::assertNamed));
  }

  /** In-place operations are allowed. */
  @Test
  void buffersThatOverlapAreRefusedWhereThatIsAskedFor() throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().with("NCCL_CHECK_MODE", "DEBUG_LOCAL");
    try (Ranks ranks = new Ranks(2, config)) {
      ranks.run(
          (c, s) -> {
            try (DeviceMemory m = Devices.host().allocate(64)) {
              long own = 8L * c.rank();
              assertOverlap(8, () -> c.allReduce(m, m.slice(8, 56), 4, F32, RedOp.SUM, s));
              assertOverlap(-4, () -> c.broadcast(m.slice(4, 8), m, 2, F32, c.rank(), s));
              assertOverlap(-4, () -> c.allGather(m.slice(4, 8), m, 2, F32, s));
              assertOverlap(4, () -> c.reduceScatter(m, m.slice(4, 8), 2, F32, RedOp.SUM, s));
              assertOverlap(0, () -> c.allToAll(m, m, 2, F32, s));
              assertOverlap(12, () -> c.allToAll(m, m.slice(12, 52), 2, F32, s));
              c.allReduce(m, m, 4, F32, RedOp.SUM, s);
              c.allReduce(m, m.slice(16, 16), 4, F32, RedOp.SUM, s);
              c.allGather(m.slice(own, 8), m, 2, F32, s);
              c.reduceScatter(m, m.slice(own, 8), 2, F32, RedOp.SUM, s);
              c.allToAll(m.slice(16, 16), m, 2, F32, s);
              s.synchronize();
            }
          });
    }
  }

  private static void assertOverlap(int behind, Executable call) {
    assertOverlap("begins " + behind + " bytes behind the send buffer and overlaps it", call);
  }

  private static void assertOverlap(String said, Executable call) {
    InvalidArgumentException e = assertThrows(InvalidArgumentException.class, call);
    assertTrue(e.getMessage().contains(said), e.getMessage());
  }

  @Test
  void partsThatOverlapAreRefusedWhereThatIsAskedFor() throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().with("NCCL_CHECK_MODE", "DEBUG_LOCAL");
    try (Ranks ranks = new Ranks(2, config)) {
      ranks.run(
          (c, s) -> {
            try (DeviceMemory m = Devices.host().allocate(64);
                DeviceMemory other = Devices.host().allocate(64)) {
              m.fill((byte) 1);
              other.fill((byte) 2);
              assertPartsAreRefused(c, s, m, other);
              assertEquals(0x01010101, first(m));
              assertEquals(0x02020202, first(other));
              assertPartsAreTaken(c, s, m, other);
              s.synchronize();
              assertEquals(0x02020202, first(m));
            }
          });
    }
  }

  private static void assertPartsAreRefused(
      Communicator c, DeviceStream s, DeviceMemory m, DeviceMemory other) {
    long[] twos = {2, 2};
    assertOverlap(
        "the part from rank 0 (2 elements at offset 0 of the recv buffer) overlaps the part from"
            + " rank 1 (2 elements at offset 1 of the recv buffer). Remedy",
        () -> c.allToAllV(other, twos, null, m, twos, new long[] {0, 1}, F32, s));
    assertOverlap(
        "the part for rank 1 (2 elements at offset 2 of the send buffer) overlaps the part from"
            + " rank 0 (2 elements at offset 0 of the recv buffer); the recv buffer begins 12"
            + " bytes behind the send buffer",
        () -> c.allToAllV(m, twos, null, m.slice(12, 32), twos, null, F32, s));
    assertOverlap("overlaps", () -> c.allToAllV(m, twos, null, m, twos, null, F32, s));
    assertOverlap(
        "overlaps", () -> c.allGatherV(other, m, new long[] {3, 2}, new long[] {0, 2}, F32, s));
    assertOverlap("overlaps", () -> c.allGatherV(m.slice(4, 8), m, twos, null, F32, s));
    assertOverlap("overlaps", () -> c.gatherV(other, m, twos, new long[] {1, 0}, F32, c.rank(), s));
    assertOverlap("overlaps", () -> c.scatterV(m, m.slice(4, 8), twos, null, F32, c.rank(), s));
    assertOverlap(
        "overlaps",
        () -> c.reduceScatterV(m, m.slice(4, 12), new long[] {3, 2}, F32, RedOp.SUM, s));
  }

  private static void assertPartsAreTaken(
      Communicator c, DeviceStream s, DeviceMemory m, DeviceMemory other) {
    long[] uneven = {3, 2};
    long own = c.rank() == 0 ? 0 : 12;
    c.allGatherV(m.slice(own, 4 * uneven[c.rank()]), m, uneven, null, F32, s);
    c.gatherV(m.slice(own, 4 * uneven[c.rank()]), m, uneven, null, F32, 0, s);
    c.scatterV(m, m.slice(own, 4 * uneven[c.rank()]), uneven, null, F32, 0, s);
    c.reduceScatterV(other, m.slice(32, 12), uneven, F32, RedOp.SUM, s);
    c.allToAllV(m, new long[2], null, m, new long[2], new long[2], F32, s);
    c.allToAllV(
        other, new long[] {2, 2}, new long[2], m, new long[] {2, 2}, new long[] {2, 0}, F32, s);
  }

  private static int first(DeviceMemory memory) {
    ByteBuffer four = ByteBuffer.allocate(4);
    memory.read(0, four);
    return four.getInt(0);
  }

  @Test
  void nullsAtCreation() {
    UniqueId id = UniqueId.create();
    Device device = Devices.host();
    CommunicatorConfig config = CommunicatorConfig.defaults();
    assertSaysNull("unique id", () -> Communicator.initRank(2, (UniqueId) null, 0, device, config));
    assertSaysNull("device", () -> Communicator.initRank(2, id, 0, null, config));
    assertSaysNull("configuration", () -> Communicator.initRank(2, id, 0, device, null));
    assertSaysNull("list of devices", () -> Communicator.initAll(null));
    assertSaysNull("device", () -> Communicator.initAll(Arrays.asList(device, null)));
    assertSaysNull("configuration", () -> Communicator.initAll(List.of(device), null));
    assertSaysNull("value of X", () -> config.with("X", null));
    assertSaysNull("bytes of a unique id", () -> UniqueId.fromBytes(null));
  }

  private static void assertSaysNull(String what, Executable call) {
    InvalidArgumentException e = assertThrows(InvalidArgumentException.class, call);
    assertTrue(e.getMessage().contains("null was passed for the " + what), e.getMessage());
  }

  @Test
  void aRankThatDoesNotCallIsNamedByTheDeadline() {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().withOperationTimeout(Duration.ofMillis(300));
    try (Ranks ranks = new Ranks(2, config);
        DeviceMemory data = Ranks.floats(16, i -> 1)) {
      ranks.communicators.get(0).allReduce(data, data, 16, F32, RedOp.SUM, ranks.streams.get(0));
      TimeoutException e =
          assertThrows(TimeoutException.class, () -> ranks.streams.get(0).synchronize());
      assertTrue(e.getMessage().contains("of rank 1"), e.getMessage());
      assertTrue(e.getMessage().contains("needs Group.run, or a thread for each"), e.getMessage());
      assertTrue(e.remedy().contains("look for an exception there"), e.remedy());
      assertTrue(ranks.communicators.get(0).asyncError().isPresent());
    }
  }

  @Test
  void ranksThatSendToEachOtherFirstAreToldToUseAGroup() throws Throwable {
    LongerDeadline.retry(Duration.ofSeconds(2), MisuseTest::assertToldToUseAGroup);
  }

  /** Neither thread comes to its receive: the sends are larger than the slots. */
  private static void assertToldToUseAGroup(Duration deadline) throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .with("NCCL4J_SINGLE_COPY", "off")
            .withOperationTimeout(deadline);
    CyclicBarrier bothHaveCalled = new CyclicBarrier(2);
    int count = 8 << 20;
    try (Ranks ranks = new Ranks(2, config)) {
      var tasks =
          ranks.start(
              (comm, stream) -> {
                try (DeviceMemory data = Ranks.floats(count, i -> 1)) {
                  try {
                    comm.send(data, count, F32, 1 - comm.rank(), stream);
                  } catch (NcclException e) {
                    bothHaveCalled.reset(); // the other rank's send has failed before
                    throw e;
                  }
                  bothHaveCalled.await(300, TimeUnit.SECONDS);
                  stream.synchronize();
                  comm.recv(data, count, F32, 1 - comm.rank(), stream);
                  stream.synchronize();
                }
              });
      for (var task : tasks) {
        ExecutionException e = assertThrows(ExecutionException.class, task::get);
        NcclException said = (NcclException) e.getCause();
        assertTrue(
            said.remedy().contains("each rank's send and its receive into one group"),
            said.getMessage());
        assertFalse(said.getMessage().contains("a thread that calls for more"), said.getMessage());
      }
    }
  }

  @Test
  void anAbortEndsTheOthersWithItsCause() throws Exception {
    try (Ranks ranks = new Ranks(3)) {
      List<FutureTask<Void>> tasks =
          ranks.start(
              (comm, stream) -> {
                try (DeviceMemory data = Ranks.floats(16, i -> 1)) {
                  if (comm.rank() == 2) {
                    comm.abort();
                  } else {
                    comm.allReduce(data, data, 16, F32, RedOp.SUM, stream);
                    stream.synchronize();
                  }
                }
              });
      tasks.get(2).get();
      for (int rank = 0; rank < 2; rank++) {
        ExecutionException e = assertThrows(ExecutionException.class, tasks.get(rank)::get);
        assertTrue(e.getCause().getMessage().contains("aborted by rank 2"), e.toString());
      }
    }
  }

  @Test
  void differentCallsAreComparedInDebugMode() throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().with("NCCL_CHECK_MODE", "DEBUG_GLOBAL");
    try (Ranks ranks = new Ranks(2, config)) {
      var tasks =
          ranks.start(
              (comm, stream) -> {
                try (DeviceMemory data = Ranks.floats(1000, i -> 1)) {
                  comm.allReduce(data, data, 1000, F32, RedOp.SUM, stream);
                  comm.allReduce(data, data, comm.rank() == 0 ? 10 : 11, F32, RedOp.SUM, stream);
                  stream.synchronize();
                }
              });
      for (var task : tasks) {
        ExecutionException e = assertThrows(ExecutionException.class, task::get);
        String said = e.getCause().getMessage();
        assertTrue(
            said.contains(
                "make different calls: as collective 2 rank 0 calls all_reduce of 10 float (sum) and"
                    + " rank 1 calls all_reduce of 11 float (sum)"),
            said);
      }
    }
  }

  private interface Different {
    void call(Communicator comm, DeviceMemory data, DeviceStream stream);
  }

  @TestFactory
  Stream<DynamicTest> typesOperatorsRootsAndOperationsAreComparedToo() {
    Map<String, Different> calls = new LinkedHashMap<>();
    calls.put(
        "of 8 int32 (sum)",
        (c, m, s) -> c.allReduce(m, m, 8, c.rank() == 0 ? F32 : DataType.INT32, RedOp.SUM, s));
    calls.put(
        "of 8 float (max)",
        (c, m, s) -> c.allReduce(m, m, 8, F32, c.rank() == 0 ? RedOp.SUM : RedOp.MAX, s));
    calls.put(
        "(mine 1, function ",
        (c, m, s) ->
            c.allReduce(
                m,
                m,
                8,
                F32,
                ReductionOperator.of("mine " + c.rank(), (a, b, target, count, type) -> {}),
                s));
    calls.put("broadcast of 8 float, root 1", (c, m, s) -> c.broadcast(m, m, 8, F32, c.rank(), s));
    calls.put(
        "rank 1 calls broadcast of 8 float, root 0",
        (c, m, s) -> {
          if (c.rank() == 0) {
            c.allReduce(m, m, 8, F32, RedOp.SUM, s);
          } else {
            c.broadcast(m, m, 8, F32, 0, s);
          }
        });
    return calls.entrySet().stream()
        .map(e -> dynamicTest(e.getKey(), () -> assertCompared(e.getKey(), e.getValue())));
  }

  private static void assertCompared(String named, Different different) throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().with("NCCL_CHECK_MODE", "DEBUG_GLOBAL");
    try (Ranks ranks = new Ranks(2, config)) {
      var tasks =
          ranks.start(
              (comm, stream) -> {
                try (DeviceMemory data = Ranks.floats(16, i -> 1)) {
                  different.call(comm, data, stream);
                  stream.synchronize();
                }
              });
      for (var task : tasks) {
        ExecutionException e = assertThrows(ExecutionException.class, task::get);
        assertTrue(e.getCause().getMessage().contains(named), e.toString());
      }
    }
  }

  @Test
  void aRankThatNeverComesIsNamedByTheInitTimeout() throws Throwable {
    LongerDeadline.retry(Duration.ofSeconds(2), MisuseTest::assertNamedByTheInitTimeout);
  }

  private static void assertNamedByTheInitTimeout(Duration deadline) {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .with("NCCL4J_TRANSPORTS", "SHM")
            .with("NCCL4J_INIT_TIMEOUT", deadline.toSeconds() + "s");
    List<String> said = new CopyOnWriteArrayList<>();
    Logger logger = Logger.getLogger("org.nccl4j.BOOTSTRAP");
    Filter before = logger.getFilter();
    logger.setFilter(log -> said.add(new SimpleFormatter().formatMessage(log)));
    TimeoutException e;
    try {
      e =
          assertThrows(
              TimeoutException.class,
              () -> Communicator.initRank(2, UniqueId.create(), 0, Devices.host(), config));
    } finally {
      logger.setFilter(before);
    }
    assertTrue(e.getMessage().contains("rank 1"), e.getMessage());
    assertTrue(e.remedy().contains("the same unique id or NCCL_COMM_ID"), e.remedy());
    String waits = "the bootstrap root still waits for rank 1 of 2; rank 0 joined";
    assertTrue(said.contains(waits), said.toString());
  }

  @Test
  void aListOfNoTransportsIsRefused() {
    CommunicatorConfig config = CommunicatorConfig.defaults().with("NCCL4J_TRANSPORTS", " , ");
    InvalidArgumentException e =
        assertThrows(
            InvalidArgumentException.class,
            () -> Communicator.initAll(List.of(Devices.host(), Devices.host()), config));
    assertEquals(ErrorId.SETTING, e.id());
    assertTrue(e.getMessage().contains("has no name of a transport"), e.getMessage());
    assertTrue(e.remedy().contains("name one or more of"), e.remedy());
  }

  @Test
  void theRemedyOfAnUnknownAlgorithmNamesItsSourceAndThoseWithAnEffect() {
    CommunicatorConfig config = CommunicatorConfig.defaults().with("NCCL_ALGO", "Rign");
    InvalidArgumentException e =
        assertThrows(
            InvalidArgumentException.class,
            () -> Communicator.initAll(List.of(Devices.host(), Devices.host()), config));
    assertTrue(e.problem().contains("NCCL_ALGO=Rign (the communicator's conf"), e.problem());
    assertFalse(e.remedy().contains("CollNet"), e.remedy());
  }

  @Test
  void unknownTransportsAndAlgorithms() {
    for (String setting : List.of("NCCL4J_TRANSPORTS", "NCCL_ALGO", "NCCL_PROTO")) {
      CommunicatorConfig config = CommunicatorConfig.defaults().with(setting, "Rign");
      InvalidArgumentException e =
          assertThrows(
              InvalidArgumentException.class,
              () -> Communicator.initAll(List.of(Devices.host(), Devices.host()), config));
      assertTrue(e.getMessage().contains("Rign"), e.getMessage());
    }
  }
}
