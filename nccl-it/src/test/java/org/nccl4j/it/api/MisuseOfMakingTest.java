package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Communicator.ShrinkMode;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.DeviceCommunicator.Requirements;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Operation;

/**
 * Wrong calls that make communicators, configurations and ids, and operations on parts of different
 * sizes: each has its error and its message, and leaves the communicator usable.
 */
@Timeout(600)
class MisuseOfMakingTest {
  private static final DataType F32 = DataType.FLOAT32;
  private static final CommunicatorConfig DEFAULTS = CommunicatorConfig.defaults();
  private static final CallOptions OPTIONS = CallOptions.defaults();

  private static Stream<MisuseCase> making() {
    Class<InvalidArgumentException> arg = InvalidArgumentException.class;
    Class<InvalidUsageException> use = InvalidUsageException.class;
    Device host = Devices.host();
    return Stream.of(
        new MisuseCase(arg, "with color -5", (c, m, s) -> c.split(-5, 0)),
        new MisuseCase(
            arg, "has 2 ranks and cannot grow to 2", (c, m, s) -> c.grow(2, null, DEFAULTS)),
        new MisuseCase(arg, "without ranks [0]", (c, m, s) -> c.shrink(Set.of(0), ShrinkMode.WAIT)),
        new MisuseCase(
            arg, "without ranks [9]", (c, m, s) -> c.shrink(Set.of(9), ShrinkMode.ABORT)),
        new MisuseCase(use, "is not suspended", (c, m, s) -> c.resume()),
        new MisuseCase(arg, "Rign", (c, m, s) -> c.withOptions(OPTIONS.withAlgorithm("Rign"))),
        new MisuseCase(arg, "LL256", (c, m, s) -> c.withOptions(OPTIONS.withProtocol("LL256"))),
        new MisuseCase(arg, "the most CTAs are 1000", (c, m, s) -> DEFAULTS.withMaxCtas(1000)),
        new MisuseCase(
            arg, "withMaxCtas: the most CTAs are 0", (c, m, s) -> OPTIONS.withMaxCtas(0)),
        new MisuseCase(arg, "the fewest CTAs are -1", (c, m, s) -> DEFAULTS.withMinCtas(-1)),
        new MisuseCase(
            arg,
            "the setting NCCL_CGA_CLUSTER_SIZE is \"9\"",
            (c, m, s) -> c.split(Communicator.NO_COLOR, 0, DEFAULTS.withCgaClusterSize(9))),
        new MisuseCase(
            arg,
            "the setting NCCL_NVLS_NCHANNELS is \"65\"",
            (c, m, s) -> Communicator.initAll(List.of(host), DEFAULTS.withNvlsCtas(65))),
        new MisuseCase(
            arg,
            "the setting NCCL_NCHANNELS_PER_NET_PEER is \"-1\"",
            (c, m, s) -> Communicator.initAll(List.of(host), DEFAULTS.withChannelsPerNetPeer(-1))),
        new MisuseCase(
            arg,
            "the setting NCCL_P2P_MAX_PEERS is \"-2\"",
            (c, m, s) -> UniqueId.create(DEFAULTS.with("NCCL_P2P_MAX_PEERS", "-2"))),
        new MisuseCase(
            arg,
            "the setting NCCL_IB_TC is \"256\"",
            (c, m, s) -> Communicator.initAll(List.of(host), DEFAULTS.withTrafficClass(256))),
        new MisuseCase(
            arg,
            "withInitTimeout: the init timeout is PT0S",
            (c, m, s) -> DEFAULTS.withInitTimeout(Duration.ZERO)),
        new MisuseCase(
            arg,
            "the operation timeout is PT-1S",
            (c, m, s) -> DEFAULTS.withOperationTimeout(Duration.ofSeconds(-1))),
        new MisuseCase(
            arg, "Devices.cuda().absence() says why", (c, m, s) -> Communicator.initAll(List.of())),
        new MisuseCase(
            arg,
            "rank 2 of 2 ranks",
            (c, m, s) -> Communicator.initRank(2, List.of(), 2, host, DEFAULTS)),
        new MisuseCase(
            arg,
            "0 unique ids for 2 ranks",
            (c, m, s) -> Communicator.initRank(2, List.of(), 0, host, DEFAULTS)),
        new MisuseCase(
            arg, "it has 15 characters, not", (c, m, s) -> UniqueId.parse("not hexadecimal")),
        new MisuseCase(arg, "null was passed for the text", (c, m, s) -> UniqueId.parse(null)),
        new MisuseCase(
            arg,
            "a heap buffer of 8 bytes cannot be wrapped",
            (c, m, s) -> Devices.wrap(ByteBuffer.allocate(8))),
        new MisuseCase(
            arg, "the count is -1", (c, m, s) -> c.explain(Operation.ALL_REDUCE, -1, F32)),
        new MisuseCase(
            arg, "the count is -2", (c, m, s) -> c.chosenAlgorithm(Operation.ALL_REDUCE, -2, F32)),
        new MisuseCase(
            arg,
            "the count is -3",
            (c, m, s) -> c.chosenAlgorithmInWindows(Operation.REDUCE, -3, F32)),
        new MisuseCase(
            arg,
            "all_reduce of 9223372036854775807 elements of float on 2 ranks has more bytes",
            (c, m, s) -> c.explain(Operation.ALL_REDUCE, Long.MAX_VALUE, F32)),
        new MisuseCase(
            arg,
            "more bytes than can be counted",
            (c, m, s) -> c.chosenAlgorithm(Operation.ALL_GATHER, 1L << 61, F32)),
        new MisuseCase(arg, "it has 3 bytes", (c, m, s) -> UniqueId.fromBytes(new byte[3])));
  }

  private static Stream<MisuseCase> parts() {
    Class<InvalidArgumentException> arg = InvalidArgumentException.class;
    long[] one = {1};
    long[] negative = {1, -1};
    long[] large = {1, 100};
    long[] fine = {1, 1};
    return Stream.of(
        new MisuseCase(
            arg,
            "counts has 1 entries for 2 ranks",
            (c, m, s) -> c.allGatherV(m, m, one, null, F32, s)),
        new MisuseCase(
            arg,
            "counts has -1 for rank 1",
            (c, m, s) -> c.allGatherV(m, m, negative, null, F32, s)),
        new MisuseCase(
            arg,
            "offsets of counts has -1 for rank 1",
            (c, m, s) -> c.allGatherV(m, m, fine, negative, F32, s)),
        new MisuseCase(
            arg,
            "sendCounts: for rank 1, 100 elements at",
            (c, m, s) -> c.allToAllV(m, large, null, m, fine, null, F32, s)),
        new MisuseCase(
            arg, "gather_v on rank", (c, m, s) -> c.gatherV(m, m, one, null, F32, c.rank(), s)),
        new MisuseCase(
            arg, "root 2 is not a rank of 2", (c, m, s) -> c.scatterV(m, m, fine, null, F32, 2, s)),
        new MisuseCase(
            arg, "type is null", (c, m, s) -> c.reduceScatterV(m, m, fine, null, RedOp.SUM, s)),
        new MisuseCase(
            arg, "recv buffer is null", (c, m, s) -> c.gather(m, null, 1, F32, c.rank(), s)),
        new MisuseCase(arg, "root 5 is not a rank", (c, m, s) -> c.scatter(m, m, 1, F32, 5, s)),
        new MisuseCase(arg, "peer -1 is not a rank", (c, m, s) -> c.recv(m, 1, F32, -1, s)),
        new MisuseCase(arg, "9", (c, m, s) -> c.signal(9, s)),
        new MisuseCase(arg, "9", (c, m, s) -> c.waitSignal(Map.of(9, 1), s)));
  }

  private static MisuseCase nothing(String what, MisuseCase.Call call) {
    return new MisuseCase(InvalidArgumentException.class, "null was passed for the " + what, call);
  }

  private static Stream<MisuseCase> nulls() {
    Set<Integer> one = Set.of(1);
    return Stream.of(
        nothing("configuration", (c, m, s) -> c.split(0, 0, null)),
        nothing("configuration", (c, m, s) -> c.shrink(one, ShrinkMode.WAIT, null)),
        nothing("set of excluded ranks", (c, m, s) -> c.shrink(null, ShrinkMode.ABORT)),
        nothing("mode of shrinking", (c, m, s) -> c.shrink(one, null)),
        nothing("options", (c, m, s) -> c.withOptions(null)),
        nothing("timeout of the close", (c, m, s) -> c.close(null)),
        nothing(
            "type of the elements", (c, m, s) -> c.chosenAlgorithm(Operation.ALL_REDUCE, 1, null)),
        nothing("type of the elements", (c, m, s) -> c.explain(Operation.ALL_REDUCE, 1, null)),
        nothing("window", (c, m, s) -> c.deregisterWindowOnAllRanks(null)),
        nothing("window", (c, m, s) -> c.deregisterWindow(null)),
        nothing("window", (c, m, s) -> c.putSignal(m, 1, F32, 1, null, 0, s)),
        nothing("signals to wait for", (c, m, s) -> c.waitSignal(null, s)),
        nothing("calls of the group", (c, m, s) -> Group.run(null)),
        nothing("calls of the group", (c, m, s) -> Group.simulate(null)),
        nothing("list of transports", (c, m, s) -> DEFAULTS.withTransports(null)),
        nothing("mode of NVLS", (c, m, s) -> DEFAULTS.withNvlsMode(null)),
        nothing("determinism", (c, m, s) -> DEFAULTS.withDeterminism(null)),
        nothing("init timeout", (c, m, s) -> DEFAULTS.withInitTimeout(null)));
  }

  @TestFactory
  Stream<DynamicTest> wrongCallsAreNamed() {
    return Stream.of(making(), parts(), nulls(), groups())
        .flatMap(rows -> rows)
        .map(wrong -> dynamicTest(wrong.message(), wrong::assertNamed));
  }

  private static MisuseCase inGroup(String what, MisuseCase.Call call) {
    String message = what + " is called in a group, and would wait for ranks";
    MisuseCase.Call grouped = (c, m, s) -> Group.run(() -> call.run(c, m, s));
    return new MisuseCase(InvalidUsageException.class, message, grouped);
  }

  private static Stream<MisuseCase> groups() {
    UniqueId id = UniqueId.create();
    return Stream.of(
        inGroup("initRank", (c, m, s) -> Communicator.initRank(2, id, 0, Devices.host())),
        inGroup("split", (c, m, s) -> c.split(0, 0)),
        inGroup("shrink", (c, m, s) -> c.shrink(Set.of(1), ShrinkMode.ABORT)),
        inGroup("grow", (c, m, s) -> c.grow(3, id, DEFAULTS)),
        inGroup("suspend", (c, m, s) -> c.suspend()),
        inGroup("resume", (c, m, s) -> c.resume()));
  }

  private interface Making {
    void run(Communicator comm, DeviceMemory memory);
  }

  /**
   * Each rank hears it, and reads nothing of the other's call for its own. The first window and the
   * first device communicator begin with the same step, which is named after both.
   */
  @TestFactory
  Stream<DynamicTest> ranksThatMakeDifferentThingsAreTold() {
    Map<String, Making> calls =
        Map.of(
            "split", (c, m) -> c.split(0, 0),
            "suspend", (c, m) -> c.suspend(),
            "registerWindow", (c, m) -> c.registerWindow(m),
            "createDeviceCommunicator",
                (c, m) ->
                    c.createDeviceCommunicator(
                        Requirements.defaults().withBarriers(1).withSlots(1)));
    return calls.keySet().stream()
        .flatMap(a -> calls.keySet().stream().filter(b -> !b.equals(a)).map(b -> List.of(a, b)))
        .map(
            two -> {
              List<Making> making = two.stream().map(calls::get).toList();
              Pattern said =
                  Pattern.compile(
                      "rank 0 calls .*%s.* and rank 1 calls .*%s".formatted(two.toArray()));
              return dynamicTest(said.pattern(), () -> assertDiffer(said, making));
            });
  }

  private static void assertDiffer(Pattern said, List<Making> making) throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = Devices.host().memAlloc(4096)) {
              Making mine = making.get(comm.rank());
              NcclException e = assertThrows(NcclException.class, () -> mine.run(comm, memory));
              assertEquals(ErrorId.CALLS_DIFFER, e.id(), e.getMessage());
              assertTrue(said.matcher(e.getMessage()).find(), e.getMessage());
            }
          });
      MisuseCase.assertWorks(ranks);
    }
  }
}
