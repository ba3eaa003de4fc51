package org.nccl4j.api.group;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.FakeDevice;
import org.nccl4j.api.FakeKernels;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.plan.NvlsAccess;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.api.plan.algorithm.CtaLimits;
import org.nccl4j.api.plan.algorithm.TunerHook;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.RankPlacement;
import org.nccl4j.api.plan.trial.TrialFile;
import org.nccl4j.api.plan.trial.Trials;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.window.RemotePeers;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.api.window.WindowSetup;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.KernelDevice.BlockRoom;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.operation.Operation;

/** Calls of one rank, checked and launched alone or in groups, by kernels that record them. */
class OperationDispatcherTest {
  private static final int RANKS = 4;
  private static final Duration DEADLINE = Duration.ofSeconds(60);

  /** Enough for more trials than events may be under way at once. */
  private static final int TRIED_CALLS = 25_000;

  private final HostDevice device = HostDevice.instance();
  private final FakeKernels kernels = new FakeKernels();
  private final Launcher launcher = new Launcher(kernels, DEADLINE);
  private final OperationDispatcher calls = dispatcher(0, kernels, launcher);
  private final DeviceStream stream = device.createStream();
  private final DeviceMemory send = device.allocate(64);
  private final DeviceMemory recv = device.allocate(64);

  @AfterEach
  void close() {
    calls.close(/* idle= */ true);
    stream.close();
    send.close();
    recv.close();
  }

  private Planner planner(int rank, FakeKernels by) {
    Planner.Rules rules =
        new Planner.Rules(
            AlgorithmFilter.ALL,
            TunerHook.NONE,
            CtaLimits.NONE,
            new InfoLog(Settings.ofProcess(Map.of()), "test"));
    CommunicatorProfile profile =
        new CommunicatorProfile(
            RANKS,
            Device.Kind.HOST,
            "",
            /* reach= */ true,
            /* nvlink= */ false,
            new RankPlacement(1, RANKS, false, ConnectionLayout.CHANNELS, true),
            Optional.empty(),
            Optional.empty(),
            /* cores= */ 2,
            BlockRoom.UNLIMITED);
    List<PeerInfo> peers =
        IntStream.range(0, RANKS)
            .mapToObj(r -> new PeerInfo(r, "h", "ns", "p", 0, Device.Kind.HOST, "host"))
            .toList();
    WindowRegistry windows =
        new WindowRegistry(
            new WindowSetup(
                "c", rank, peers, device, null, 0, RemotePeers.none("", ""), null, null),
            space -> {});
    ConnectionLayout layout = new ConnectionLayout(1024, 1024, 4096);
    return new Planner(
        by, new Planner.Place(rank, profile, layout, NvlsAccess.NONE, windows), rules);
  }

  private OperationDispatcher dispatcher(int rank, FakeKernels by, Launcher through) {
    return new OperationDispatcher(
        new CommunicatorRank("c", 7, rank, RANKS, device, false, true),
        planner(rank, by),
        through,
        null);
  }

  private static long shape(Operation operation, RedOp op, int root) {
    return CallShape.of(operation, DataType.FLOAT32, op, root);
  }

  private void call(Operation operation, int root, long count) {
    calls.call(shape(operation, RedOp.SUM, root), send, recv, count, stream);
  }

  @Test
  void aCallIsPlannedAndLaunchedOnItsBuffers() {
    call(Operation.ALL_REDUCE, 0, 16);
    assertEquals(16, kernels.last().collective().count());
    assertEquals(
        List.of(new FakeKernels.Launch(kernels.last(), send, recv, stream)), kernels.launches);
    call(Operation.ALL_REDUCE, 0, 16);
    assertEquals(1, kernels.plans.size());
    assertEquals(2, kernels.launches.size());
  }

  /**
   * One thread may launch for all ranks: freeing would wait for operations that it launches next.
   */
  @Test
  void memoryBetweenStepsThatGrowsIsFreedLate() {
    FakeDevice leasing = new FakeDevice();
    StepMemory steps = new StepMemory(leasing);
    steps.of(100, /* capturing= */ false);
    steps.of(200, /* capturing= */ true);
    assertEquals(List.of("late 100"), leasing.freed);
    steps.of(300, /* capturing= */ false);
    assertEquals(1, leasing.freed.size(), "a graph may use the one before");
    steps.close();
    assertEquals(List.of("late 100", "200", "300"), leasing.freed);
  }

  private static Trials trials(int rank, Path folder, Device device) {
    return new Trials(
        device,
        new Trials.Rank(5, rank, /* nRanks= */ 2, "2", "a host", Duration.ofMinutes(1)),
        folder.toString(),
        /* channel= */ null,
        new InfoLog(Settings.ofProcess(Map.of()), "test"));
  }

  private static List<String> ways(FakeKernels by) {
    return by.launches.stream()
        .map(launch -> launch.plan().collective())
        .map(work -> work.algorithm() + " " + work.protocol())
        .toList();
  }

  /**
   * Ranks try the same in the same calls, although one of them is refused each call once, as for a
   * buffer that was closed. A refused trial leaves nothing behind.
   */
  @Test
  void aCallThatIsRefusedIsNoCallOfTheTrials(@TempDir Path folder) {
    FakeKernels others = new FakeKernels();
    OperationDispatcher other = dispatcher(1, others, new Launcher(others, DEADLINE));
    calls.tryOut(trials(0, folder, device));
    other.tryOut(trials(1, folder, device));
    long shape = shape(Operation.ALL_REDUCE, RedOp.SUM, 0);
    for (int call = 0; call < TRIED_CALLS; call++) {
      kernels.launchError = new InternalErrorException("refused", "try again");
      assertThrows(InternalErrorException.class, () -> call(Operation.ALL_REDUCE, 0, 16));
      kernels.launchError = null;
      call(Operation.ALL_REDUCE, 0, 16);
      other.call(shape, send, recv, 16, stream);
      stream.synchronize();
    }
    List<String> ways = ways(kernels);
    assertEquals(ways(others), ways);
    assertTrue(Set.copyOf(ways).size() > 1, "something was tried");
    List<FakeKernels.Plan> tried =
        kernels.plans.stream().filter(plan -> plan != kernels.plans.get(0)).toList();
    assertTrue(tried.stream().allMatch(plan -> plan.discards() == 1));
    calls.endTrials();
    other.endTrials();
    other.close(/* idle= */ true);
    List<Integer> measured =
        TrialFile.readAll(folder).stream().map(file -> file.samples().size()).toList();
    assertEquals(measured.get(1), measured.get(0));
    assertTrue(measured.get(0) > tried.size() / 2, "as many of the chosen way as of others");
  }

  @Test
  void aCallWithoutElementsLaunchesNothing() {
    for (Operation operation : Operation.values()) {
      call(operation, 0, 0);
    }
    assertEquals(List.of(), kernels.plans);
    assertEquals(List.of(), kernels.launches);
  }

  private void refused(Class<? extends NcclException> type, String message, Executable wrong) {
    NcclException e = assertThrows(type, wrong);
    assertTrue(e.getMessage().contains(message), e.getMessage());
    assertTrue(e.getMessage().contains("Remedy: "), e.getMessage());
    assertEquals(List.of(), kernels.plans);
    assertEquals(List.of(), kernels.launches);
  }

  private void wrong(
      String message, Operation operation, int root, DeviceMemory from, DeviceMemory to, long n) {
    long shape = shape(operation, RedOp.SUM, root);
    refused(InvalidArgumentException.class, message, () -> calls.call(shape, from, to, n, stream));
  }

  @Test
  void wrongArgumentsAreNamedAndNothingIsPlanned() {
    wrong("all_reduce on rank 0 of communicator c", Operation.ALL_REDUCE, 0, null, recv, 1);
    wrong("the send buffer is null", Operation.ALL_REDUCE, 0, null, recv, 1);
    wrong("the recv buffer is null", Operation.ALL_REDUCE, 0, send, null, 1);
    wrong("count is -1", Operation.ALL_REDUCE, 0, send, recv, -1);
    wrong("has 64 bytes", Operation.ALL_REDUCE, 0, send, recv, 17);
    wrong("has 64 bytes, 4 x 5 elements", Operation.ALL_GATHER, 0, send, recv, 5);
    wrong(
        "need 36893488147419103232",
        Operation.REDUCE_SCATTER,
        0,
        send,
        recv,
        Long.MAX_VALUE / 4 + 1);
    wrong("root 4 is not a rank of 4", Operation.BROADCAST, 4, send, recv, 1);
    wrong("root -1", Operation.REDUCE, -1, send, recv, 1);
    wrong("peer 7 is not a rank", Operation.SEND, 7, send, null, 1);
    refused(
        InvalidArgumentException.class,
        "type is null",
        () ->
            calls.call(
                CallShape.of(Operation.ALL_REDUCE, null, RedOp.SUM, 0), send, recv, 1, stream));
    refused(
        InvalidArgumentException.class,
        "operator is null",
        () -> calls.call(shape(Operation.ALL_REDUCE, null, 0), send, recv, 1, stream));
    refused(
        InvalidArgumentException.class,
        "stream is null",
        () -> calls.call(shape(Operation.ALL_REDUCE, RedOp.SUM, 0), send, recv, 1, null));
    refused(
        InvalidArgumentException.class,
        "was created for float, but the elements are int32",
        () ->
            calls.call(
                CallShape.of(Operation.ALL_REDUCE, DataType.INT32, RedOp.SUM, 0),
                ReductionOperator.preMulSum(DataType.FLOAT32, 2.0),
                send,
                recv,
                1,
                stream));
  }

  @Test
  void whatIsClosedIsNamed() {
    DeviceMemory freed = device.allocate(64);
    DeviceMemory part = freed.slice(0, 8);
    DeviceStream ended = device.createStream();
    freed.close();
    ended.close();
    long shape = shape(Operation.ALL_REDUCE, RedOp.SUM, 0);
    Class<InvalidUsageException> use = InvalidUsageException.class;
    refused(use, "the send buffer is closed", () -> calls.call(shape, freed, recv, 1, stream));
    refused(use, "the recv buffer is closed", () -> calls.call(shape, send, part, 1, stream));
    refused(use, "closed stream", () -> calls.call(shape, send, recv, 1, ended));
  }

  /** A repeated call is checked for what can have changed since the last one. */
  @Test
  void aRepeatedCallIsRefusedOnceSomethingIsClosed() {
    DeviceMemory freed = device.allocate(64);
    DeviceMemory part = freed.slice(0, 8);
    DeviceStream ended = device.createStream();
    long shape = shape(Operation.ALL_REDUCE, RedOp.SUM, 0);
    Executable sends = () -> calls.call(shape, part, recv, 1, stream);
    Executable receives = () -> calls.call(shape, send, freed, 1, stream);
    Executable streams = () -> calls.call(shape, send, recv, 1, ended);
    repeat(sends);
    part.close();
    refusedNow("the send buffer is closed", sends);
    repeat(receives);
    freed.close();
    refusedNow("the recv buffer is closed", receives);
    repeat(streams);
    ended.close();
    refusedNow("closed stream", streams);
    // A root alone looks at the other buffer.
    long rooted = shape(Operation.REDUCE, RedOp.SUM, 1);
    repeat(() -> calls.call(rooted, send, freed, 1, stream));
  }

  private void repeat(Executable call) {
    int before = kernels.launches.size();
    for (int i = 0; i < 3; i++) {
      assertDoesNotThrow(call);
    }
    assertEquals(before + 3, kernels.launches.size());
  }

  private void refusedNow(String message, Executable call) {
    int before = kernels.launches.size();
    for (int i = 0; i < 2; i++) {
      NcclException e = assertThrows(InvalidUsageException.class, call);
      assertTrue(e.getMessage().contains(message), e.getMessage());
    }
    assertEquals(before, kernels.launches.size());
  }

  @Test
  void aCallUnlikeTheLastOneInOneArgumentIsChecked() {
    long shape = shape(Operation.ALL_REDUCE, RedOp.SUM, 0);
    DeviceMemory small = send.slice(0, 8);
    repeat(() -> calls.call(shape, send, recv, 4, stream));
    Class<InvalidArgumentException> wrong = InvalidArgumentException.class;
    assertThrows(wrong, () -> calls.call(shape, small, recv, 4, stream));
    assertThrows(wrong, () -> calls.call(shape, send, send.slice(4, 60), 4, stream));
    assertThrows(wrong, () -> calls.call(shape, send, recv, 17, stream));
    assertThrows(wrong, () -> calls.call(shape, send, recv, 4, null));
    long all = shape(Operation.ALL_GATHER, RedOp.SUM, 0);
    assertThrows(wrong, () -> calls.call(all, send, recv, 5, stream));
    assertEquals(3, kernels.launches.size());
    repeat(() -> calls.call(shape, send, recv, 4, stream));
  }

  /** Buffers in place begin together, or one is this rank's part of the other. */
  @Test
  void buffersThatOverlapOtherwiseAreRefused() {
    String said = " bytes behind the send buffer and overlaps it";
    wrong("begins 8" + said, Operation.ALL_REDUCE, 0, send, send.slice(8, 56), 4);
    wrong("begins -4" + said, Operation.BROADCAST, 0, send.slice(4, 8), send, 2);
    wrong("begins -4" + said, Operation.ALL_GATHER, 0, send.slice(4, 8), send, 2);
    wrong("begins 4" + said, Operation.REDUCE_SCATTER, 0, send, send.slice(4, 8), 2);
    wrong("begins 0" + said, Operation.ALL_TO_ALL, 0, send, send, 2);
    long sum = shape(Operation.ALL_REDUCE, RedOp.SUM, 0);
    calls.call(sum, send, send, 4, stream);
    calls.call(sum, send, send.slice(16, 16), 4, stream);
    calls.call(shape(Operation.ALL_GATHER, RedOp.SUM, 0), send.slice(0, 8), send, 2, stream);
    calls.call(shape(Operation.REDUCE_SCATTER, RedOp.SUM, 0), send, send.slice(0, 8), 2, stream);
    assertEquals(4, kernels.launches.size());
  }

  @Test
  void whatFailedOrIsClosedTakesNoMoreCalls() {
    NcclException cause = new InternalErrorException("a kernel broke", "mend it", null);
    kernels.abort(cause);
    NcclException e = assertThrows(NcclException.class, () -> call(Operation.ALL_REDUCE, 0, 16));
    assertEquals(cause.problem(), e.problem());
    assertTrue(launcher.close("c", Duration.ofSeconds(1)));
    e = assertThrows(NcclException.class, () -> call(Operation.ALL_REDUCE, 0, 16));
    assertEquals(ErrorId.CLOSED, e.id());
    assertEquals(List.of(), kernels.launches);
  }

  /** The next call finds nobody inside. */
  @Test
  void aLaunchThatFailsLeavesTheLauncher() {
    kernels.launchError = new IllegalStateException("the first");
    assertThrows(IllegalStateException.class, () -> call(Operation.ALL_REDUCE, 0, 16));
    kernels.launchError = null;
    call(Operation.ALL_REDUCE, 0, 16);
    assertEquals(1, kernels.launches.size());
  }

  /** Messages are launched together, after the collectives. */
  @Test
  void aGroupIsLaunchedAtItsEnd() {
    GroupScope.run(
        () -> {
          call(Operation.SEND, 1, 4);
          call(Operation.ALL_REDUCE, 0, 16);
          GroupScope.run(() -> call(Operation.RECV, 3, 4));
          call(Operation.BROADCAST, 2, 16);
          assertEquals(List.of(), kernels.launches);
        });
    assertEquals(3, kernels.launches.size());
    assertEquals(Operation.ALL_REDUCE, kernels.launches.get(0).plan().collective().operation());
    assertEquals(Operation.BROADCAST, kernels.launches.get(1).plan().collective().operation());
    List<P2pWork> messages = kernels.launches.get(2).plan().messages();
    assertEquals(List.of(1, 3), messages.stream().map(P2pWork::peer).toList());
    assertSame(send, messages.get(0).buffer());
    assertSame(recv, messages.get(1).buffer());
  }

  private List<List<Long>> countsOfGroups() {
    return kernels.groups.stream()
        .map(group -> group.stream().map(one -> one.plan().collective().count()).toList())
        .toList();
  }

  /** As many at once as the device takes; one that is left is launched by itself. */
  @Test
  void collectivesOfAGroupAreLaunchedTogether() {
    kernels.together = 3;
    List<Long> told = new ArrayList<>();
    launcher.hooks().add((what, count, type, root, into) -> told.add(count));
    GroupScope.run(
        () -> {
          for (int count = 1; count <= 7; count++) {
            call(Operation.ALL_REDUCE, 0, count);
          }
          call(Operation.SEND, 1, 4);
          call(Operation.RECV, 1, 4);
        });
    assertEquals(List.of(List.of(1L, 2L, 3L), List.of(4L, 5L, 6L)), countsOfGroups());
    assertEquals(List.of(send, recv), buffers(kernels.groups.get(0).get(2)));
    assertEquals(2, kernels.launches.size());
    assertEquals(7, kernels.launches.get(0).plan().collective().count());
    assertEquals(2, kernels.launches.get(1).plan().messages().size());
    assertEquals(List.of(1L, 2L, 3L, 4L, 5L, 6L, 7L, 4L, 4L), told);
  }

  /** Ranks send and receive what other ranks do not: that does not divide the collectives. */
  @Test
  void sendsBetweenCollectivesDoNotDivideThem() {
    kernels.together = 10;
    GroupScope.run(
        () -> {
          call(Operation.ALL_REDUCE, 0, 1);
          call(Operation.SEND, 1, 4);
          call(Operation.ALL_REDUCE, 0, 2);
          call(Operation.RECV, 1, 4);
          call(Operation.ALL_REDUCE, 0, 3);
        });
    assertEquals(List.of(List.of(1L, 2L, 3L)), countsOfGroups());
    assertEquals(1, kernels.launches.size());
    assertEquals(2, kernels.launches.get(0).plan().messages().size());
  }

  private static List<DeviceMemory> buffers(FakeKernels.Launch launch) {
    return List.of(launch.send(), launch.recv());
  }

  /** An operation that is planned in another way, or not launched, divides the others. */
  @Test
  void otherOperationsAreLaunchedInTheirOrder() {
    kernels.together = 10;
    GroupScope.run(
        () -> {
          call(Operation.ALL_REDUCE, 0, 1);
          call(Operation.BROADCAST, 1, 2);
          call(Operation.ALL_REDUCE, 0, 0);
          call(Operation.ALL_REDUCE, 0, 3);
          calls.call(
              shape(Operation.ALL_REDUCE, RedOp.SUM, 0),
              ReductionOperator.preMulSum(DataType.FLOAT32, 2.0),
              send,
              recv,
              4,
              stream);
          call(Operation.ALL_REDUCE, 0, 5);
          call(Operation.ALL_REDUCE, 0, 6);
        });
    assertEquals(List.of(List.of(1L, 2L), List.of(5L, 6L)), countsOfGroups());
    assertEquals(
        List.of(3L, 4L),
        kernels.launches.stream().map(launch -> launch.plan().collective().count()).toList());
  }

  @Test
  void aGroupOfOneOperationIsLaunchedAsACall() {
    kernels.together = 10;
    GroupScope.run(() -> call(Operation.ALL_REDUCE, 0, 16));
    GroupScope.run(() -> call(Operation.ALL_REDUCE, 0, 16));
    assertEquals(List.of(), kernels.groups);
    assertEquals(2, kernels.launches.size());
  }

  private Task.Row sums(long... counts) {
    Task.Row tasks = new Task.Row(1);
    for (long count : counts) {
      long shape = shape(Operation.ALL_REDUCE, RedOp.SUM, 0);
      tasks.add(new Task().set(calls.groups(), shape, null).on(send, recv, count, stream));
    }
    return tasks;
  }

  /** Ranks on one GPU take turns: each operation is a launch, with its place among the others. */
  @Test
  void ranksInTurnsLaunchOneOperationOfAGroupAfterTheOther() {
    kernels.together = 2;
    Task.Row tasks = sums(1, 2, 3);
    Task.Row batch = sums(1, 2);
    assertEquals(2, calls.groups().together(tasks, 0));
    assertEquals(2, calls.groups().together(tasks, 1));
    assertEquals(1, calls.groups().together(tasks, 2));
    assertEquals(List.of(), kernels.groups);
    calls.groups().launchOneOf(batch, 0);
    calls.groups().launchOneOf(batch, 1);
    assertEquals(List.of(List.of(1L), List.of(2L)), countsOfGroups());
    kernels.launchError = new IllegalStateException("the second");
    assertThrows(IllegalStateException.class, () -> calls.groups().launchOneOf(batch, 1));
    assertEquals(0, kernels.groupLaunch().size(), "a launch that fails leaves nothing");
    kernels.together = 0;
    assertEquals(1, calls.groups().together(tasks, 0));
  }

  /** Nothing of it is in a later group. */
  @Test
  void anOperationThatCannotBePlannedIsInNoGroup() {
    kernels.together = 10;
    Task.Row tasks = sums(1, 2, Long.MAX_VALUE);
    assertThrows(InvalidArgumentException.class, () -> calls.groups().launch(tasks, 3));
    assertEquals(0, kernels.groupLaunch().size());
    calls.groups().launch(tasks, 2);
    assertEquals(List.of(List.of(1L, 2L)), countsOfGroups());
  }

  @Test
  void theMessagesOfAGroupThatComesAgainArePlannedOnce() {
    for (int group = 0; group < 3; group++) {
      GroupScope.run(
          () -> {
            call(Operation.SEND, 1, 4);
            call(Operation.RECV, 1, 4);
          });
    }
    assertEquals(1, kernels.plans.size());
    assertEquals(3, kernels.launches.size());
  }

  private void exchange(DeviceMemory from, DeviceMemory to, long count, DeviceStream on) {
    GroupScope.run(
        () -> {
          calls.call(shape(Operation.SEND, RedOp.SUM, 1), from, null, count, on);
          calls.call(shape(Operation.RECV, RedOp.SUM, 3), null, to, count, on);
        });
  }

  private FakeKernels.Launch launched() {
    return kernels.launches.get(kernels.launches.size() - 1);
  }

  /** A group like the one before it has its plan; a group that differs in anything has another. */
  @Test
  void aGroupThatDiffersFromTheLastHasItsOwnPlanAndStream() {
    exchange(send, recv, 4, stream);
    FakeKernels.Plan first = kernels.last();
    exchange(send, recv, 4, stream);
    assertSame(first, launched().plan());
    exchange(send, recv, 5, stream);
    assertEquals(20, launched().plan().messages().get(1).bytes());
    exchange(recv, send, 4, stream);
    assertSame(recv, launched().plan().messages().get(0).buffer());
    GroupScope.run(() -> call(Operation.SEND, 1, 4));
    assertEquals(1, launched().plan().messages().size());
    try (DeviceStream other = device.createStream()) {
      exchange(send, recv, 4, other);
      assertSame(other, launched().stream());
    }
    assertSame(first, launched().plan());
    assertEquals(4, kernels.plans.size());
  }

  /** The memory of a group that comes again may have been freed, and allocated anew, meanwhile. */
  @Test
  void aGroupThatComesAgainWithOtherMemoryIsPlannedAnew() {
    DeviceMemory freed = device.allocate(64);
    exchange(freed, recv, 4, stream);
    exchange(freed, recv, 4, stream);
    stream.synchronize();
    freed.close();
    assertThrows(InvalidUsageException.class, () -> exchange(freed, recv, 4, stream));
    assertEquals(2, kernels.launches.size());
    try (DeviceMemory anew = device.allocate(64)) {
      exchange(anew, recv, 4, stream);
      assertSame(anew, launched().plan().messages().get(0).buffer());
    }
  }

  /** So many groups that each call was compared as another, too. */
  private void repeatExchange(DeviceMemory from, DeviceMemory to, DeviceStream on) {
    for (int group = 0; group < 2 * CheckedCall.CHECKED; group++) {
      exchange(from, to, 4, on);
    }
  }

  @Test
  void aGroupThatComesOftenIsLaunchedByOnePlan() {
    repeatExchange(send, recv, stream);
    assertEquals(1, kernels.plans.size());
    assertEquals(2 * CheckedCall.CHECKED, kernels.launches.size());
  }

  /** A group that comes again is checked for what can have changed since the last one. */
  @Test
  void aRepeatedGroupIsRefusedOnceSomethingIsClosed() {
    DeviceMemory freed = device.allocate(64);
    DeviceMemory part = freed.slice(0, 16);
    DeviceStream ended = device.createStream();
    repeatExchange(part, recv, stream);
    part.close();
    refusedNow("send on rank 0 of communicator c: the send buffer is closed", from(part, stream));
    repeatExchange(send, freed, stream);
    freed.close();
    refusedNow(
        "recv on rank 0 of communicator c: the recv buffer is closed",
        () -> exchange(send, freed, 4, stream));
    repeatExchange(send, recv, ended);
    ended.close();
    refusedNow("called with a closed stream", from(send, ended));
    // Without elements a buffer is not looked at.
    for (int group = 0; group < 3; group++) {
      exchange(part, freed, 0, stream);
    }
    assertEquals(0, launched().plan().messages().get(0).bytes());
  }

  private Executable from(DeviceMemory from, DeviceStream on) {
    return () -> exchange(from, recv, 4, on);
  }

  @Test
  void aRepeatedGroupHoldsWhatIsClosedInsideIt() {
    DeviceMemory from = device.allocate(64);
    DeviceMemory to = device.allocate(64);
    DeviceStream ended = device.createStream();
    long sends = shape(Operation.SEND, RedOp.SUM, 1);
    long receives = shape(Operation.RECV, RedOp.SUM, 3);
    repeatExchange(from, to, ended);
    FakeKernels.Plan plan = launched().plan();
    GroupScope.start();
    calls.call(sends, from, null, 4, ended);
    calls.call(receives, null, to, 4, ended);
    from.close();
    to.close();
    assertFalse(Leases.of(from).isOver() || Leases.of(to).isOver(), "held by the group");
    GroupScope.end();
    assertSame(plan, launched().plan());
    assertTrue(Leases.of(from).isOver() && Leases.of(to).isOver());
    repeatExchange(send, recv, ended);
    int before = kernels.launches.size();
    GroupScope.start();
    calls.call(sends, send, null, 4, ended);
    ended.close();
    assertThrows(
        InvalidUsageException.class, () -> calls.call(receives, null, recv, 4, ended), "closed");
    assertThrows(InvalidUsageException.class, GroupScope::end);
    assertEquals(before, kernels.launches.size());
    assertTrue(Leases.of(ended).isOver());
  }

  /** The host looks at the buffers of an exchange that comes again at its launch. */
  @Test
  void aRepeatedExchangeIsLaunchedOnItsBuffers() {
    for (int group = 0; group < 3; group++) {
      exchange(send, recv, 4, stream);
    }
    assertSame(send, launched().send());
    assertSame(recv, launched().recv());
    exchange(send, recv, 5, stream);
    assertEquals(null, launched().send(), "its first group");
    calls.call(shape(Operation.SEND, RedOp.SUM, 1), send, null, 4, stream);
    exchange(send, recv, 5, stream);
    assertEquals(
        List.of(20L, 20L), launched().plan().messages().stream().map(P2pWork::bytes).toList());
  }

  /** A buffer closed by another thread before the group's end is freed after the launch. */
  @Test
  void aRepeatedGroupHoldsWhatAnotherThreadCloses() throws Exception {
    DeviceMemory from = device.allocate(64);
    DeviceMemory to = device.allocate(64);
    repeatExchange(from, to, stream);
    exchange(from, to, 4, stream);
    GroupScope.run(
        () -> {
          calls.call(shape(Operation.SEND, RedOp.SUM, 1), from, null, 4, stream);
          calls.call(shape(Operation.RECV, RedOp.SUM, 3), null, to, 4, stream);
          Thread closer =
              new Thread(
                  () -> {
                    from.close();
                    to.close();
                  });
          closer.start();
          assertDoesNotThrow(() -> closer.join());
          assertFalse(Leases.of(from).isOver() || Leases.of(to).isOver(), "held by the group");
        });
    assertSame(from, launched().send());
    assertTrue(Leases.of(from).isOver() && Leases.of(to).isOver());
  }

  /**
   * Calls that a repeated group has begun with, then another call, and something closed between.
   */
  @Test
  void aGroupThatBeginsAsTheRepeatedOneHoldsItsCalls() {
    DeviceMemory from = device.allocate(64);
    DeviceStream ended = device.createStream();
    repeatExchange(from, recv, ended);
    exchange(from, recv, 4, ended);
    int before = kernels.launches.size();
    GroupScope.run(
        () -> {
          calls.call(shape(Operation.SEND, RedOp.SUM, 1), from, null, 4, ended);
          assertEquals(1, GroupScope.operations());
          from.close();
          ended.close();
          call(Operation.ALL_REDUCE, 0, 16);
          assertEquals(2, GroupScope.operations());
          assertFalse(Leases.of(from).isOver() || Leases.of(ended).isOver(), "held by the group");
        });
    assertEquals(before + 2, kernels.launches.size());
    assertSame(ended, launched().stream());
    assertTrue(Leases.of(from).isOver() && Leases.of(ended).isOver());
    assertEquals(0, GroupScope.operations());
  }

  /** A group that fails, or is only simulated, ends what its repeated calls hold. */
  @Test
  void aRepeatedGroupThatIsNotLaunchedHoldsNothing() {
    DeviceMemory from = device.allocate(64);
    repeatExchange(from, recv, stream);
    exchange(from, recv, 4, stream);
    int before = kernels.launches.size();
    long sends = shape(Operation.SEND, RedOp.SUM, 1);
    IllegalStateException mine = new IllegalStateException("of the user");
    assertSame(
        mine,
        assertThrows(
            IllegalStateException.class,
            () ->
                GroupScope.run(
                    () -> {
                      calls.call(sends, from, null, 4, stream);
                      throw mine;
                    })));
    assertTrue(GroupScope.simulate(() -> calls.call(sends, from, null, 4, stream)) >= 0);
    GroupScope.start();
    calls.call(sends, from, null, 4, stream);
    from.close();
    GroupScope.simulateEnd();
    assertTrue(Leases.of(from).isOver());
    assertEquals(before, kernels.launches.size());
  }

  @Test
  void aRepeatedExchangeWhoseLaunchFailsLeavesTheLauncherAndTheGroup() {
    DeviceMemory from = device.allocate(64);
    repeatExchange(from, recv, stream);
    exchange(from, recv, 4, stream);
    kernels.launchError = new IllegalStateException("no room");
    assertThrows(IllegalStateException.class, () -> exchange(from, recv, 4, stream));
    kernels.launchError = null;
    exchange(from, recv, 4, stream);
    from.close();
    assertTrue(Leases.of(from).isOver());
  }

  @Test
  void aRepeatedGroupOfAFailedOrClosedCommunicatorIsRefused() {
    repeatExchange(send, recv, stream);
    NcclException cause = new InternalErrorException("a kernel broke", "mend it", null);
    kernels.abort(cause);
    NcclException e =
        assertThrows(InternalErrorException.class, () -> exchange(send, recv, 4, stream));
    assertEquals(cause.problem(), e.problem());
    assertTrue(launcher.close("c", Duration.ofSeconds(60)));
    e = assertThrows(NcclException.class, () -> exchange(send, recv, 4, stream));
    assertEquals(ErrorId.CLOSED, e.id());
    assertEquals(2 * CheckedCall.CHECKED, kernels.launches.size());
  }

  @Test
  void aGroupUnlikeTheRepeatedOneInOneArgumentIsChecked() {
    repeatExchange(send, recv, stream);
    Class<InvalidArgumentException> wrong = InvalidArgumentException.class;
    assertThrows(wrong, () -> exchange(send.slice(0, 8), recv, 4, stream));
    assertThrows(wrong, () -> exchange(send, recv.slice(0, 8), 4, stream));
    assertThrows(wrong, () -> exchange(send, recv, 17, stream));
    assertThrows(wrong, () -> exchange(send, recv, 4, null));
    assertThrows(wrong, () -> exchange(null, recv, 4, stream));
    long far = shape(Operation.SEND, RedOp.SUM, RANKS);
    assertThrows(
        wrong, () -> GroupScope.run(() -> calls.call(far, send, null, 4, stream)), "no rank");
    assertEquals(2 * CheckedCall.CHECKED, kernels.launches.size());
    assertEquals(1, kernels.plans.size());
  }

  /** Groups with a repeated one's calls, but in another order, or fewer, or with others. */
  @Test
  void aGroupOfARepeatedOnesCallsHasItsOwnPlan() {
    long sends = shape(Operation.SEND, RedOp.SUM, 1);
    long receives = shape(Operation.RECV, RedOp.SUM, 3);
    repeatExchange(send, recv, stream);
    FakeKernels.Plan first = launched().plan();
    GroupScope.run(
        () -> {
          calls.call(receives, null, recv, 4, stream);
          calls.call(sends, send, null, 4, stream);
        });
    assertSame(recv, launched().plan().messages().get(0).buffer());
    repeatExchange(send, recv, stream);
    GroupScope.run(() -> calls.call(sends, send, null, 4, stream));
    assertEquals(1, launched().plan().messages().size());
    exchange(send, recv, 4, stream);
    assertSame(first, launched().plan());
    GroupScope.run(
        () -> {
          calls.call(sends, send, null, 4, stream);
          calls.call(receives, null, recv, 4, stream);
          call(Operation.ALL_REDUCE, 0, 16);
        });
    assertSame(first, launched().plan());
    assertEquals(16, kernels.last().collective().count());
    try (DeviceStream other = device.createStream()) {
      int before = kernels.launches.size();
      GroupScope.run(
          () -> {
            calls.call(sends, send, null, 4, stream);
            calls.call(receives, null, recv, 4, other);
          });
      assertEquals(before + 1, kernels.launches.size());
      assertSame(stream, launched().stream());
      assertFalse(other.isIdle() && stream.isIdle(), "one waits for the other");
      other.synchronize();
    }
  }

  @Test
  void aRepeatedGroupOfAnotherCommunicatorIsItsOwn() {
    FakeKernels others = new FakeKernels();
    OperationDispatcher other = dispatcher(1, others, new Launcher(others, DEADLINE));
    long sends = shape(Operation.SEND, RedOp.SUM, 1);
    long receives = shape(Operation.RECV, RedOp.SUM, 3);
    repeatExchange(send, recv, stream);
    for (int group = 0; group < 2; group++) {
      GroupScope.run(
          () -> {
            other.call(sends, send, null, 4, stream);
            other.call(receives, null, recv, 4, stream);
          });
    }
    assertEquals(2, others.launches.size());
    assertEquals(2 * CheckedCall.CHECKED, kernels.launches.size());
    calls.become(dispatcher(0, others, new Launcher(others, DEADLINE)));
    exchange(send, recv, 4, stream);
    assertEquals(3, others.launches.size());
    assertEquals(2, others.plans.size());
    assertSame(others.last(), others.launches.get(2).plan());
  }

  /** Calls that follow each other in a stream share a lease of it. */
  @Test
  void streamsAreHeldUntilTheGroupsEnd() {
    long sum = shape(Operation.ALL_REDUCE, RedOp.SUM, 0);
    List<DeviceStream> streams = List.of(device.createStream(), device.createStream());
    for (boolean closes : new boolean[] {false, true}) {
      GroupScope.run(
          () -> {
            for (int call : new int[] {0, 0, 1, 1, 0}) {
              calls.call(sum, send, recv, 4, streams.get(call));
            }
            if (closes) {
              streams.forEach(DeviceStream::close);
            }
            streams.forEach(each -> assertFalse(Leases.of(each).isOver(), "held by the group"));
          });
    }
    assertEquals(10, kernels.launches.size());
    streams.forEach(each -> assertTrue(Leases.of(each).isOver()));
  }

  @Test
  void aWrongCallFailsItsGroupAlsoWhereItIsCaught() {
    GroupScope.start();
    call(Operation.ALL_REDUCE, 0, 16);
    NcclException first =
        assertThrows(InvalidArgumentException.class, () -> call(Operation.BROADCAST, 9, 16));
    call(Operation.ALL_REDUCE, 0, 16);
    NcclException error = assertThrows(InvalidArgumentException.class, GroupScope::end);
    assertSame(first, error.getCause());
    assertTrue(error.problem().startsWith(first.problem()), error.problem());
    assertEquals(List.of(), kernels.launches);
    call(Operation.ALL_REDUCE, 0, 16);
    assertEquals(1, kernels.launches.size());
  }

  /** Memory that is closed between a call and the end of its group is freed after the launch. */
  @Test
  void aGroupHoldsTheMemoryOfItsCalls() {
    DeviceMemory given = device.allocate(64);
    GroupScope.run(
        () -> {
          calls.call(shape(Operation.ALL_REDUCE, RedOp.SUM, 0), given, recv, 16, stream);
          given.close();
        });
    assertSame(given, kernels.launches.get(0).send());
  }

  @Test
  void messagesOfSeveralStreamsAreLaunchedInTheFirst() {
    try (DeviceStream other = device.createStream()) {
      GroupScope.run(
          () -> {
            call(Operation.SEND, 1, 4);
            calls.call(shape(Operation.RECV, RedOp.SUM, 1), null, recv, 4, other);
          });
      assertEquals(1, kernels.launches.size());
      assertSame(stream, kernels.launches.get(0).stream());
      other.synchronize(); // waits for the first, which is empty
    }
  }

  @Test
  void aFailedCommunicatorLeavesOutItsWholeGroup() {
    FakeKernels failed = new FakeKernels();
    failed.abort(new InternalErrorException("a kernel broke", "mend it", null));
    OperationDispatcher broken = dispatcher(1, failed, new Launcher(failed, DEADLINE));
    NcclException e =
        assertThrows(
            NcclException.class,
            () ->
                GroupScope.run(
                    () -> {
                      try (DeviceStream its = device.createStream()) {
                        broken.call(shape(Operation.ALL_REDUCE, RedOp.SUM, 0), send, recv, 16, its);
                      }
                      call(Operation.ALL_REDUCE, 0, 16);
                    }));
    assertEquals("a kernel broke", e.problem());
    assertEquals(List.of(), failed.launches);
    assertEquals(List.of(), kernels.launches);
  }

  @Test
  void oneThatFailsInItsGroupLeavesOutTheWholeGroup() {
    FakeKernels failing = new FakeKernels();
    OperationDispatcher broken = dispatcher(1, failing, new Launcher(failing, DEADLINE));
    NcclException e =
        assertThrows(
            NcclException.class,
            () ->
                GroupScope.run(
                    () -> {
                      call(Operation.ALL_REDUCE, 0, 16);
                      try (DeviceStream its = device.createStream()) {
                        broken.call(shape(Operation.ALL_REDUCE, RedOp.SUM, 0), send, recv, 16, its);
                      }
                      failing.abort(new InternalErrorException("a kernel broke", "mend it", null));
                    }));
    assertEquals("a kernel broke", e.problem());
    assertEquals(List.of(), failing.launches);
    assertEquals(List.of(), kernels.launches);
  }

  @Test
  void twoRanksInOneStreamAreRefused() {
    FakeKernels others = new FakeKernels();
    OperationDispatcher other = dispatcher(1, others, new Launcher(others, DEADLINE));
    InvalidArgumentException e =
        assertThrows(
            InvalidArgumentException.class,
            () ->
                GroupScope.run(
                    () -> {
                      call(Operation.ALL_REDUCE, 0, 16);
                      other.call(shape(Operation.ALL_REDUCE, RedOp.SUM, 0), send, recv, 16, stream);
                    }));
    assertEquals(ErrorId.STREAM, e.id());
    assertTrue(e.problem().startsWith("ranks 0 and 1 of communicator c "), e.problem());
    assertEquals(List.of(), kernels.launches);
    assertEquals(List.of(), others.launches);
  }

  /** A resumed communicator keeps its dispatcher, which has new kernels from then on. */
  @Test
  void aDispatcherBecomesAnother() {
    FakeKernels newKernels = new FakeKernels();
    calls.become(dispatcher(0, newKernels, new Launcher(newKernels, DEADLINE)));
    call(Operation.ALL_REDUCE, 0, 16);
    assertEquals(List.of(), kernels.launches);
    assertEquals(1, newKernels.launches.size());
  }
}
