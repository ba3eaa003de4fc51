package org.nccl4j.api.plan.cost;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.plan.algorithm.AlgorithmSelector;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.cluster.CommTopology;

class NvlsCostModelTest {
  private static final int N = 8;

  private static final CommunicatorProfile FACTS =
      new CommunicatorProfile(N, Device.Kind.CUDA, "NVIDIA H200", true, true);

  private static Nvls nvls(boolean emulated) {
    return new Nvls(
        new NvlsLayout(N, 16, 128 << 10),
        List.of(0, 1, 2, 3, 4, 5, 6, 7),
        0,
        null,
        new MulticastMemory(emulated, List.of()));
  }

  private static CostModel costs(boolean emulated) {
    return FACTS.costs(nvls(emulated), Optional.empty());
  }

  private static Algorithm cheapest(CostModel costs, Operation operation, long bytes) {
    long whole = bytes * operation.wholes(N);
    return costs.betweenWindows(operation).stream()
        .min(
            Comparator.comparingDouble(
                algorithm -> costs.microseconds(operation, algorithm, algorithm.protocol(), whole)))
        .orElseThrow();
  }

  /**
   * On windows: the switch spares an all-reduce half of its traffic, and others only the stores'
   * number; its emulation spares nothing.
   */
  @Test
  void onWindowsTheSwitchIsTheCheapestAndItsEmulationNever() {
    CostModel bySwitch = FACTS.costs(nvls(false), Optional.empty());
    CostModel emulated = FACTS.costs(nvls(true), Optional.empty());
    for (Operation operation : Operation.ofAllRanks()) {
      boolean reduces = operation == Operation.ALL_REDUCE;
      boolean lines = reduces || operation == Operation.ALL_GATHER;
      assertEquals(reduces, cheapest(bySwitch, operation, 64 << 20) == Algorithm.DIRECT_NVLS);
      assertEquals(lines, cheapest(bySwitch, operation, 256) == Algorithm.DIRECT_NVLS_LL);
      for (long bytes = 8; bytes <= 1 << 30; bytes *= 8) {
        assertFalse(cheapest(emulated, operation, bytes).isMulticast(), operation + " " + bytes);
      }
    }
    double micros =
        bySwitch.microseconds(
            Operation.ALL_REDUCE, Algorithm.DIRECT_NVLS, Protocol.SIMPLE, 256 << 20);
    assertEquals(976, micros, 2, "the figure of docs/concepts/nvls.md");
  }

  /** Through slots, in place and in lines by multicast. */
  @Test
  void aTablesTimesOfEachFormComeFirst() {
    TunedTable table =
        TunedTable.parse(
            "times",
            List.of(
                "device NVIDIA H200",
                "8 AllReduce NVLS Simple 1048576:99",
                "8 AllReduce DirectNVLS Simple 1048576:7",
                "8 AllReduce NVLS LL 1024:3"));
    CostModel costs = FACTS.with(table).costs(nvls(false), Optional.empty());
    Operation all = Operation.ALL_REDUCE;
    assertEquals(99, costs.microseconds(all, Algorithm.NVLS, Protocol.SIMPLE, 1 << 20));
    assertEquals(7, costs.microseconds(all, Algorithm.DIRECT_NVLS, Protocol.SIMPLE, 1 << 20));
    assertEquals(3, costs.microseconds(all, Algorithm.DIRECT_NVLS_LL, Protocol.LL, 1 << 10));
    assertEquals(
        Double.POSITIVE_INFINITY,
        costs.microseconds(all, Algorithm.DIRECT_NVLS_LL, Protocol.LL, 1 << 30),
        "more than lines carry");
    assertTrue(costs.windowSource().contains("times"), costs.windowSource());
    assertEquals(
        costs(false).microseconds(Operation.ALL_GATHER, Algorithm.NVLS, Protocol.SIMPLE, 1 << 20),
        costs.microseconds(Operation.ALL_GATHER, Algorithm.NVLS, Protocol.SIMPLE, 1 << 20));
  }

  /** The figures of docs/concepts/nvls.md. */
  @Test
  void anAllReduceBy8GpusIsAsTheDocumentSays() {
    long bytes = 256 << 20;
    double micros =
        costs(false).microseconds(Operation.ALL_REDUCE, Algorithm.NVLS, Protocol.SIMPLE, bytes);
    assertEquals(988, micros, 2);
    assertEquals(475, bytes / micros / 1e3 * 2 * (N - 1) / N, 1);
  }

  /** By the switch large all-reduces take it; emulated it moves as much as a ring, with copies. */
  @ParameterizedTest
  @CsvSource({
    "false, 268435456, FLOAT32, SUM, NVLS",
    "false, 268435456, FLOAT32, MAX, TwoShot",
    "false, 1024, FLOAT32, SUM, OneShot",
    "true, 268435456, FLOAT32, SUM, TwoShot",
  })
  void theChoiceKnowsTypesAndForms(
      boolean emulated, long bytes, DataType type, RedOp op, String algorithm) {
    AlgorithmChoice choice =
        new AlgorithmSelector(costs(emulated), AlgorithmFilter.ALL)
            .choose(Operation.ALL_REDUCE, bytes, type, op);
    assertEquals(algorithm, choice.algorithm().label());
  }

  /** Sums and extremes of 8 bits where the switches have them, but no means. */
  @Test
  void floatsOf8BitsTakeItWhereTheSwitchCombinesThem() {
    Nvls plain = nvls(false);
    for (boolean bytes : new boolean[] {false, true}) {
      Nvls place =
          new Nvls(
              plain.layout(),
              plain.members(),
              plain.heads(),
              0,
              null,
              plain.multicast(),
              List.of(),
              1,
              bytes);
      CostModel costs = FACTS.costs(place, Optional.empty());
      for (DataType type : List.of(DataType.FLOAT8_E4M3, DataType.FLOAT8_E5M2)) {
        for (RedOp op : RedOp.values()) {
          boolean has = bytes && op != RedOp.PROD && op != RedOp.AVG;
          Operation sum = Operation.ALL_REDUCE;
          assertEquals(has, costs.has(Algorithm.NVLS, sum, type, op), type + " " + op);
          assertEquals(has, costs.has(Algorithm.DIRECT_NVLS, sum, type, op), op.label());
          assertFalse(costs.has(Algorithm.DIRECT_NVLS_LL, sum, type, op));
        }
        assertTrue(costs.has(Algorithm.NVLS, Operation.ALL_GATHER, type, RedOp.SUM));
      }
      assertFalse(costs.has(Algorithm.NVLS, Operation.ALL_REDUCE, DataType.INT8, RedOp.SUM));
    }
  }

  private static Nvls among(int n) {
    return new Nvls(
        new NvlsLayout(n, 16, 128 << 10),
        IntStream.range(0, n).boxed().toList(),
        0,
        null,
        new MulticastMemory(/* emulated= */ false, List.of()));
  }

  private static CommunicatorProfile searched(String model, int n, int sm, int links) {
    return new CommunicatorProfile(n, Device.Kind.CUDA, model, true, true)
        .with(Optional.of(TopologyCostModelTest.topology(1, n, sm, links)));
  }

  private static double largeByNvls(int n, int sm, int links) {
    return searched("some GPU", n, sm, links)
        .costs(among(n), Optional.empty())
        .microseconds(Operation.ALL_REDUCE, Algorithm.NVLS, Protocol.SIMPLE, 1 << 30);
  }

  /** The bandwidth is that of the machine's own links, at its architecture's efficiency. */
  @Test
  void linksAndArchitectureOfTheTopologyCount() {
    double hopper = largeByNvls(8, 90, 18);
    assertEquals(20 + 1.125 * (1 << 30) / (18 * 20.6 * 0.85 * 1e3), hopper, 1);
    double blackwell = largeByNvls(8, 100, 18);
    assertEquals(20 + 1.125 * (1 << 30) / (18 * 40.1 * 0.74 * 1e3), blackwell, 1);
    assertEquals(2 * (hopper - 20), largeByNvls(8, 90, 9) - 20, 1, "half of the links");
  }

  /** Large all-reduces take it on Hopper and Blackwell, where the topology alone is known too. */
  @ParameterizedTest
  @CsvSource({
    "NVIDIA H200, 8, 90",
    "NVIDIA H200, 4, 90",
    "some GPU, 8, 90",
    "NVIDIA B200, 8, 100",
    "NVIDIA B300 SXM6 AC, 8, 103",
  })
  void largeAllReducesTakeItOnEachArchitecture(String model, int n, int sm) {
    AlgorithmSelector selector =
        new AlgorithmSelector(
            searched(model, n, sm, 18).costs(among(n), Optional.empty()), AlgorithmFilter.ALL);
    for (long bytes : new long[] {256 << 20, 1 << 30}) {
      assertEquals(
          "NVLS",
          selector
              .choose(Operation.ALL_REDUCE, bytes, DataType.FLOAT32, RedOp.SUM)
              .algorithm()
              .label(),
          bytes + " bytes");
    }
    assertNotEquals(
        "NVLS",
        selector
            .choose(Operation.ALL_REDUCE, 1024, DataType.FLOAT32, RedOp.SUM)
            .algorithm()
            .label());
  }

  /** A user's own figures go before the prediction. */
  @Test
  void tunedFiguresCount(@TempDir Path folder) throws Exception {
    Path file = folder.resolve("costs.txt");
    Files.writeString(
        file,
        "device NVIDIA H200\n"
            + "8 AllReduce NVLS Simple 1024:100 268435456:5000\n"
            + "8 AllReduce Ring Simple 1024:90 268435456:1500\n");
    CommunicatorProfile tuned =
        new CommunicatorProfile(
            N,
            Device.Kind.CUDA,
            "NVIDIA H200",
            true,
            true,
            RankPlacement.together(N),
            Optional.empty(),
            TunedTable.read(file.toString()));
    CostModel costs = tuned.costs(nvls(false), Optional.empty());
    long bytes = 256 << 20;
    assertEquals(
        5000, costs.microseconds(Operation.ALL_REDUCE, Algorithm.NVLS, Protocol.SIMPLE, bytes));
    assertTrue(
        costs
            .source(Operation.ALL_REDUCE, Algorithm.NVLS, Protocol.SIMPLE)
            .contains(file.toString()));
    assertEquals(
        "Ring",
        new AlgorithmSelector(costs, AlgorithmFilter.ALL)
            .choose(Operation.ALL_REDUCE, bytes, DataType.FLOAT32, RedOp.SUM)
            .algorithm()
            .label());
    assertTrue(
        costs.microseconds(Operation.ALL_GATHER, Algorithm.NVLS, Protocol.SIMPLE, bytes) < 1000,
        "what was not measured is predicted");
  }

  private static CostModel between(boolean emulated, Optional<CommTopology> topology) {
    CommunicatorProfile facts =
        new CommunicatorProfile(
            2 * N,
            Device.Kind.CUDA,
            "NVIDIA H200",
            false,
            false,
            new RankPlacement(2, N, true, 4, false),
            topology,
            Optional.empty());
    return facts.costs(nvls(emulated).among(2, List.of()), Optional.empty());
  }

  private static double tree(CostModel costs, long bytes) {
    return costs.microseconds(Operation.ALL_REDUCE, Algorithm.NVLS_TREE, Protocol.SIMPLE, bytes);
  }

  /** On two machines of GPUs NVLS has the tree alone, on the channels that proxies carry. */
  @Test
  void betweenMachinesGpusHaveTheTree() {
    for (boolean emulated : new boolean[] {false, true}) {
      CostModel costs = between(emulated, Optional.empty());
      assertEquals(
          List.of(
              Algorithm.TREE,
              Algorithm.RING,
              Algorithm.ONE_SHOT,
              Algorithm.HIERARCHICAL,
              Algorithm.NVLS_TREE),
          costs.overConnections(Operation.ALL_REDUCE));
      assertEquals(
          List.of(Algorithm.RING, Algorithm.ONE_SHOT, Algorithm.PAT, Algorithm.HIERARCHICAL),
          costs.overConnections(Operation.ALL_GATHER));
      AlgorithmChoice choice = new AlgorithmChoice(Algorithm.NVLS_TREE, Protocol.SIMPLE, 1);
      assertEquals(4, costs.channels(Operation.ALL_REDUCE, choice, 1 << 30));
      for (long bytes = 8; bytes <= 1 << 30; bytes *= 8) {
        double alone =
            costs(emulated)
                .microseconds(Operation.ALL_REDUCE, Algorithm.NVLS, Protocol.SIMPLE, bytes);
        assertEquals(2 * 35 + bytes / 2.5e3, tree(costs, bytes) - alone, 1e-3 * alone);
      }
      assertEquals(
          "NVLSTree",
          new AlgorithmSelector(costs, AlgorithmFilter.parse("NVLSTree", ""))
              .choose(Operation.ALL_REDUCE, 1000, DataType.FLOAT32, RedOp.SUM)
              .algorithm()
              .label());
    }
  }

  /**
   * Where machines are known, as NCCL's model has it; what is emulated is no cheaper than a tree.
   */
  @Test
  void betweenKnownMachinesTheTreeCostsWhatNcclsModelSays() {
    CommTopology topology = TopologyCostModelTest.topology(2, N, 90, 18);
    CostModel bySwitch = between(false, Optional.of(topology));
    CostModel emulated = between(true, Optional.of(topology));
    for (long bytes = 64; bytes <= 1 << 30; bytes *= 8) {
      float time =
          topology.costs().time(Operation.ALL_REDUCE, Algorithm.NVLS_TREE, Protocol.SIMPLE, bytes);
      assertTrue(time > 0, "the model has it");
      assertEquals(time, tree(bySwitch, bytes));
      assertTrue(
          tree(emulated, bytes)
              > emulated.microseconds(
                  Operation.ALL_REDUCE, Algorithm.TREE, Protocol.SIMPLE, bytes));
    }
  }
}
