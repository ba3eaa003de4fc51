package org.nccl4j.api.group;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.FakeDevice;
import org.nccl4j.api.FakeKernels;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.plan.NvlsAccess;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.api.plan.algorithm.CtaLimits;
import org.nccl4j.api.plan.algorithm.TunerHook;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.RankPlacement;
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
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.KernelDevice.BlockRoom;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** Prepared calls of quantised sums of one rank, by kernels that record them. */
class QuantisedPlansTest {
  private static final int RANKS = 4;

  private final HostDevice device = HostDevice.instance();
  private final FakeKernels kernels = new FakeKernels();

  @Test
  void memoryOfQuantisedSumsThatGrowsIsFreedLate() {
    FakeDevice leasing = new FakeDevice();
    QuantisedSums sums = quantised(leasing);
    sums.prepare(shape(Operation.ALL_REDUCE, RedOp.SUM, 0), null, 1000);
    sums.prepare(shape(Operation.ALL_REDUCE, RedOp.SUM, 0), null, 10_000);
    assertEquals(2, leasing.freed.size());
    assertTrue(
        leasing.freed.stream().allMatch(of -> of.startsWith("late ")), leasing.freed::toString);
    sums.close();
    assertEquals(4, leasing.freed.size());
    assertFalse(leasing.freed.get(3).startsWith("late "));
  }

  private static Planner planner(
      FakeKernels by, Device.Kind kind, RankPlacement spread, AlgorithmFilter filter) {
    Planner.Rules rules =
        new Planner.Rules(
            filter,
            TunerHook.NONE,
            CtaLimits.NONE,
            new InfoLog(Settings.ofProcess(Map.of()), "test"));
    CommunicatorProfile profile =
        new CommunicatorProfile(
            RANKS,
            kind,
            "",
            /* reach= */ true,
            /* nvlink= */ false,
            spread,
            Optional.empty(),
            Optional.empty(),
            /* cores= */ 2,
            BlockRoom.UNLIMITED);
    List<PeerInfo> peers =
        IntStream.range(0, RANKS)
            .mapToObj(r -> new PeerInfo(r, "h", "ns", "p", 0, kind, "a device"))
            .toList();
    WindowRegistry windows =
        new WindowRegistry(
            new WindowSetup(
                "c",
                0,
                peers,
                HostDevice.instance(),
                null,
                0,
                RemotePeers.none("", ""),
                null,
                null),
            space -> {});
    ConnectionLayout layout = new ConnectionLayout(1024, 1024, 4096);
    return new Planner(by, new Planner.Place(0, profile, layout, NvlsAccess.NONE, windows), rules);
  }

  /** Four ranks of one host. */
  private QuantisedSums quantised(Device of) {
    RankPlacement one = new RankPlacement(1, RANKS, false, ConnectionLayout.CHANNELS, true);
    return quantised(of, planner(kernels, Device.Kind.HOST, one, AlgorithmFilter.ALL));
  }

  /** Two of four ranks on each of two hosts. */
  private QuantisedSums amongHosts(Device of, Device.Kind kind, String algorithms) {
    RankPlacement two = new RankPlacement(2, 2, true, ConnectionLayout.CHANNELS, true);
    AlgorithmFilter filter = AlgorithmFilter.parse(algorithms, "");
    return quantised(of, planner(kernels, kind, two, filter));
  }

  private QuantisedSums quantised(Device of, Planner planner) {
    QuantisedSums sums =
        new QuantisedSums(
            new QuantisedSums.How(DataType.INT8, 32),
            0,
            RANKS,
            of,
            "rank 0",
            new QuantisedMemory(of));
    sums.attach(planner, new Launcher(kernels, Duration.ofSeconds(60)));
    return sums;
  }

  private static long shape(Operation operation, RedOp op, int root) {
    return CallShape.of(operation, DataType.FLOAT32, op, root);
  }

  private long discards() {
    return kernels.plans.stream().mapToInt(FakeKernels.Plan::discards).sum();
  }

  /** Memory that a program wraps may claim any size. */
  @Test
  void quantisedSumsOfTooManyElementsAreRefused() {
    QuantisedSums sums = quantised(device);
    for (Operation operation : List.of(Operation.ALL_REDUCE, Operation.REDUCE_SCATTER)) {
      for (long count : new long[] {Long.MAX_VALUE / 16, Long.MAX_VALUE / 4, Long.MAX_VALUE}) {
        InvalidArgumentException e =
            assertThrows(
                InvalidArgumentException.class,
                () -> sums.check(shape(operation, RedOp.SUM, 0), count));
        assertEquals(ErrorId.COUNT, e.id());
      }
      sums.check(shape(operation, RedOp.SUM, 0), Long.MAX_VALUE / 16 / RANKS);
    }
  }

  /** A table with a place for each would prepare calls with one place anew. */
  @Test
  void callsByTurnsArePreparedOnce() {
    QuantisedSums sums = quantised(device);
    int prepared = 0;
    for (int round = 0; round < 3; round++) {
      for (int size = 1; size <= 20; size++) {
        sums.prepare(shape(Operation.ALL_REDUCE, RedOp.SUM, 0), null, 1000L * size);
        sums.prepare(shape(Operation.REDUCE_SCATTER, RedOp.AVG, 0), null, 512L * size);
      }
      assertTrue(round == 0 || kernels.plans.size() == prepared, "round " + round);
      prepared = kernels.plans.size();
    }
    assertEquals(0, discards());
    sums.close();
  }

  /** More counts than there are places. */
  @Test
  void callsThatAreNotUsedLatelyMakeRoom() {
    QuantisedSums sums = quantised(device);
    for (long count = 1; count < 5000; count++) {
      sums.prepare(shape(Operation.REDUCE_SCATTER, RedOp.SUM, 0), null, count);
      int prepared = kernels.plans.size();
      sums.prepare(shape(Operation.REDUCE_SCATTER, RedOp.SUM, 0), null, 1);
      assertEquals(prepared, kernels.plans.size(), "after count " + count);
    }
    assertTrue(discards() > 8000, () -> "discards: " + discards());
    sums.close();
  }

  /** A loop that makes memory of errors for each call would keep the steps of all. */
  @Test
  void stepsWithErrorsWhoseMemoryIsClosedAreDiscarded() {
    long sum = shape(Operation.ALL_REDUCE, RedOp.SUM, 0);
    QuantisedSums sums = quantised(device);
    for (int round = 0; round < 10; round++) {
      try (DeviceMemory errors = device.allocate(4000)) {
        sums.prepare(sum, errors, 1000);
        int prepared = kernels.plans.size();
        sums.prepare(sum, errors, 1000);
        assertEquals(prepared, kernels.plans.size());
        assertEquals(2 * round, discards());
      }
    }
    sums.close();
  }

  /** Calls of another count come, and none with errors. */
  @Test
  void closedErrorsAreForgottenByOtherCalls() {
    long sum = shape(Operation.REDUCE_SCATTER, RedOp.SUM, 0);
    QuantisedSums sums = quantised(device);
    try (DeviceMemory errors = device.allocate(4000)) {
      sums.prepare(sum, errors, 250);
    }
    for (int call = 0; call < 1024; call++) {
      sums.prepare(sum, null, 100);
    }
    assertEquals(2, discards());
    sums.close();
  }

  /** Views made for each call name the same memory by new objects. */
  @Test
  void errorsInTheSameBytesHaveTheSameSteps() {
    long sum = shape(Operation.ALL_REDUCE, RedOp.SUM, 0);
    QuantisedSums sums = quantised(device);
    try (DeviceMemory errors = device.allocate(8000)) {
      sums.prepare(sum, errors.slice(0, 4000), 1000);
      int prepared = kernels.plans.size();
      sums.prepare(sum, errors.slice(0, 4000), 1000);
      assertEquals(prepared, kernels.plans.size());
      sums.prepare(sum, errors.slice(4000, 4000), 1000);
      assertEquals(prepared + 2, kernels.plans.size(), "other bytes");
    }
    sums.close();
  }

  /** Of too many errors those go that were used before all others. */
  @Test
  void errorsThatAreUsedOftenKeepTheirSteps() {
    long sum = shape(Operation.ALL_REDUCE, RedOp.SUM, 0);
    QuantisedSums sums = quantised(device);
    try (DeviceMemory errors = device.allocate(4 * 2000)) {
      DeviceMemory often = errors.slice(0, 4000);
      for (int view = 1; view <= 1000; view++) {
        sums.prepare(sum, errors.slice(4 * view, 4000), 1000);
        int prepared = kernels.plans.size();
        sums.prepare(sum, often, 1000);
        assertTrue(view == 1 || prepared == kernels.plans.size(), "view " + view);
      }
    }
    sums.close();
  }

  /** As where the device has no memory left for the arguments of a later one. */
  @Test
  void plansBeforeOneThatFailsAreDiscarded() {
    long sum = shape(Operation.ALL_REDUCE, RedOp.SUM, 0);
    QuantisedSums sums = amongHosts(device, Device.Kind.HOST, "Hierarchical");
    for (int made = 0; made < 6; made++) {
      kernels.plans.clear();
      kernels.mostPlans = made;
      assertThrows(InternalErrorException.class, () -> sums.prepare(sum, null, 1000));
      // Four of the call, which is kept from then on, then two of the errors.
      assertEquals(made < 4 ? made : made - 4, discards(), made + " plans");
      if (made == 4) {
        break;
      }
    }
    kernels.plans.clear();
    kernels.mostPlans = 1;
    assertThrows(InternalErrorException.class, () -> sums.prepare(sum, null, 1000));
    assertEquals(1, discards());
    kernels.mostPlans = 3;
    sums.prepare(sum, null, 1000);
    assertEquals(1, discards());
    sums.close();
  }

  /** Memories of errors that are never closed: their steps are bounded. */
  @Test
  void stepsWithTooManyErrorsAreDiscarded() {
    long sum = shape(Operation.REDUCE_SCATTER, RedOp.SUM, 0);
    QuantisedSums sums = quantised(device);
    DeviceMemory errors = device.allocate(8000);
    for (int view = 0; view < 1000; view++) {
      sums.prepare(sum, errors.slice(4 * view, 4000), 250);
    }
    assertTrue(kernels.plans.size() - discards() < 600, () -> discards() + " discarded");
    sums.close();
    errors.close();
  }

  /** Ranks on devices of two kinds choose one way, or they would wait for each other. */
  @Test
  void ranksOfAllDevicesChooseOneWay() {
    for (Device.Kind kind : Device.Kind.values()) {
      QuantisedSums onHost = amongHosts(device, kind, "");
      QuantisedSums onGpu = amongHosts(new FakeDevice(), kind, "");
      for (Operation operation : List.of(Operation.ALL_REDUCE, Operation.REDUCE_SCATTER)) {
        for (long count = 1; count < 1L << 30; count *= 3) {
          assertEquals(
              onHost.predict(shape(operation, RedOp.SUM, 0), count),
              onGpu.predict(shape(operation, RedOp.SUM, 0), count));
        }
      }
    }
  }

  private static String chosen(QuantisedSums sums) {
    String text = sums.explain(Operation.ALL_REDUCE, 1 << 20, DataType.FLOAT32);
    return text.lines().filter(line -> line.contains("chosen: ")).findFirst().orElse("none");
  }

  /** A list that names Hierarchical and others leaves the choice to the predicted times. */
  @Test
  void aListOfSeveralAlgorithmsLeavesTheChoice() {
    for (Device.Kind kind : Device.Kind.values()) {
      String free = chosen(amongHosts(device, kind, ""));
      assertEquals(free, chosen(amongHosts(device, kind, "Ring,Hierarchical")));
      assertEquals("  chosen: hierarchically", chosen(amongHosts(device, kind, "Hierarchical")));
      assertEquals("none", chosen(amongHosts(device, kind, "Ring")));
    }
    AlgorithmFilter both = AlgorithmFilter.parse("Ring,Hierarchical", "");
    assertFalse(both.demandsAlone(Operation.ALL_REDUCE, Algorithm.HIERARCHICAL));
    AlgorithmFilter alone = AlgorithmFilter.parse("Ring;allreduce:Hierarchical", "");
    assertTrue(alone.demandsAlone(Operation.ALL_REDUCE, Algorithm.HIERARCHICAL));
    assertFalse(alone.demandsAlone(Operation.REDUCE_SCATTER, Algorithm.HIERARCHICAL));
    assertFalse(AlgorithmFilter.ALL.demandsAlone(Operation.ALL_REDUCE, Algorithm.HIERARCHICAL));
  }

  /** A third is added to its time, as to that of plain all-reduces there. */
  @Test
  void hostsOfGpusGoTheWayThatIsPredictedFaster() {
    QuantisedSums sums = amongHosts(device, Device.Kind.CUDA, "");
    Set<String> ways = new HashSet<>();
    for (int count = 1000; count < 1 << 26; count *= 4) {
      String text = sums.explain(Operation.ALL_REDUCE, count, DataType.FLOAT32);
      assertTrue(text.contains("a third added"), text);
      double[] times =
          Pattern.compile("together ([0-9.]+) us")
              .matcher(text)
              .results()
              .mapToDouble(found -> Double.parseDouble(found.group(1)))
              .toArray();
      String faster = times[1] < times[0] ? "hierarchically" : "the all-to-all";
      assertTrue(text.contains("chosen: " + faster), text);
      ways.add(faster);
    }
    assertEquals(Set.of("hierarchically", "the all-to-all"), ways);
    String named =
        amongHosts(device, Device.Kind.CUDA, "Hierarchical")
            .explain(Operation.ALL_REDUCE, 1000, DataType.FLOAT32);
    assertTrue(named.contains("chosen: hierarchically"), named);
    String onHosts =
        amongHosts(device, Device.Kind.HOST, "")
            .explain(Operation.ALL_REDUCE, 1 << 20, DataType.FLOAT32);
    assertFalse(onHosts.contains("a third added"), onHosts);
  }

  /** The greatest count of which the plain operation can be explained. */
  @Test
  void bytesOfHugeCountsDoNotOverflow() {
    long count = Long.MAX_VALUE / 16 / RANKS / Float.BYTES;
    for (Operation operation : List.of(Operation.ALL_REDUCE, Operation.REDUCE_SCATTER)) {
      for (String by : List.of("Ring", "Tree", "Hierarchical")) {
        String text =
            amongHosts(device, Device.Kind.HOST, by).explain(operation, count, DataType.FLOAT32);
        assertFalse(text.contains("-1") || text.contains(" -"), text);
      }
    }
    String trees =
        amongHosts(device, Device.Kind.HOST, "Tree")
            .explain(Operation.ALL_REDUCE, 1000, DataType.FLOAT32);
    assertTrue(trees.contains("without (those by Ring; it goes by Tree)"), trees);
  }
}
