package org.nccl4j.api.plan.cost;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.plan.algorithm.AlgorithmSelector;
import org.nccl4j.api.plan.algorithm.TunerHook;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.path.PeerStatus;
import org.nccl4j.topo.xml.TopologyXml;

/** The engine's choices on machines of which only the topology is known. */
public class TopologyCostModelTest {
  private static final String PCIE_5 = "32.0 GT/s";

  private static final ConnectionLayout LAYOUT = new ConnectionLayout(64 << 12, 64 << 12, 64 << 15);

  /** Two NUMA nodes with half of the GPUs each, and a network card. */
  private static String machine(int gpus, int sm, int nvLinks, int megabits, String pcie) {
    StringBuilder text = new StringBuilder("<system version=\"1\">\n");
    for (int numa = 0; numa < 2; numa++) {
      text.append("<cpu numaid=\"%d\" arch=\"x86_64\" vendor=\"GenuineIntel\"".formatted(numa));
      text.append(" familyid=\"6\" modelid=\"143\">\n");
      for (int gpu = numa * gpus / 2; gpu < (numa + 1) * gpus / 2; gpu++) {
        text.append(pci("%x%d".formatted(gpu + 1, numa), pcie));
        text.append("<gpu dev=\"%d\" sm=\"%d\" rank=\"%d\" gdr=\"1\">".formatted(gpu, sm, gpu));
        if (nvLinks > 0) {
          text.append("<nvlink target=\"0000:ff:00.0\" count=\"%d\"".formatted(nvLinks));
          text.append(" tclass=\"0x068000\"/>");
        }
        text.append("</gpu></pci>\n");
      }
      text.append(pci("f" + numa, PCIE_5)).append("<nic><net name=\"mlx5_%d\"".formatted(numa));
      text.append(" dev=\"%d\" speed=\"%d\" port=\"1\"".formatted(numa, megabits));
      text.append(" guid=\"0x%d\"".formatted(numa));
      text.append(" maxconn=\"131072\" gdr=\"1\"/></nic></pci>\n</cpu>\n");
    }
    return text.append("</system>\n").toString();
  }

  private static String pci(String bus, String pcie) {
    String speed = "link_speed=\"%s PCIe\" link_width=\"16\"".formatted(pcie);
    return "<pci busid=\"0000:%s:00.0\" class=\"0x030200\" %s>".formatted(bus, speed);
  }

  public static CommTopology topology(int hosts, int gpus, int sm, int nvLinks) {
    return topology(hosts, gpus, sm, nvLinks, TopoSettings.defaults());
  }

  public static CommTopology topology(
      int hosts, int gpus, int sm, int nvLinks, TopoSettings settings) {
    return topology(hosts, gpus, sm, nvLinks, 400_000, settings);
  }

  public static CommTopology topology(
      int hosts, int gpus, int sm, int nvLinks, int megabits, TopoSettings settings) {
    return topology(hosts, gpus, machine(gpus, sm, nvLinks, megabits, PCIE_5), settings);
  }

  /** GPUs of one machine on PCIe of a speed, such as "16.0 GT/s". */
  public static CommTopology pcie(int gpus, int sm, String speed) {
    return topology(1, gpus, machine(gpus, sm, 0, 400_000, speed), TopoSettings.defaults());
  }

  private static CommTopology topology(int hosts, int gpus, String machine, TopoSettings settings) {
    List<CommTopology.Host> all = new ArrayList<>();
    for (int host = 0; host < hosts; host++) {
      int first = host * gpus;
      all.add(
          new CommTopology.Host(
              TopologyXml.parseSystem("host " + host, machine),
              IntStream.range(first, first + gpus).toArray()));
    }
    return CommTopology.of(all, new ClusterOptions(settings, PeerStatus.ALLOWED, false));
  }

  private static CostModel costs(String model, int nRanks, boolean nvlink, CommTopology topology) {
    return new CommunicatorProfile(nRanks, Device.Kind.CUDA, model, true, nvlink)
        .with(Optional.of(topology))
        .costs();
  }

  private static AlgorithmChoice choice(CostModel costs, Operation operation, long bytes) {
    return new AlgorithmSelector(costs, AlgorithmFilter.ALL)
        .choose(operation, bytes, DataType.FLOAT32, RedOp.SUM);
  }

  /** NVLink 4 through switches, where H200's own figures tell what is fastest. */
  @ParameterizedTest
  @CsvSource({
    "ALL_REDUCE, 8, OneShot LL128",
    "ALL_REDUCE, 524288, TwoShot LL128",
    "ALL_REDUCE, 8388608, TwoShot Simple",
    "ALL_REDUCE, 4294967296, Ring Simple",
    "ALL_GATHER, 524288, OneShot LL128",
    "ALL_GATHER, 1073741824, Ring Simple",
    "BROADCAST, 8, OneShot LL128",
    "BROADCAST, 134217728, Ring Simple",
    "REDUCE_SCATTER, 8, OneShot LL128",
  })
  void onH100WhatIsFastestOnH200IsChosen(Operation operation, long bytes, String expected) {
    AlgorithmChoice choice =
        choice(costs("NVIDIA H100", 4, true, topology(1, 4, 90, 18)), operation, bytes);
    assertEquals(expected, choice.algorithm().label() + " " + choice.protocol().label());
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 4})
  void whatWasMeasuredIsNotTouched(int nRanks) {
    CostModel with = costs("NVIDIA H200", nRanks, true, topology(1, nRanks, 90, 18));
    CostModel without =
        new CommunicatorProfile(nRanks, Device.Kind.CUDA, "NVIDIA H200", true, true).costs();
    assertEquals(without.source(), with.source());
    for (Operation operation : Operation.collectives()) {
      for (long bytes = 8; bytes <= 1L << 33; bytes += Math.max(8, bytes / 5)) {
        AlgorithmChoice is = choice(with, operation, bytes);
        assertEquals(choice(without, operation, bytes), is);
        assertEquals(without.channels(operation, is, bytes), with.channels(operation, is, bytes));
        assertEquals(
            without.chunkBytes(LAYOUT, operation, is, bytes),
            with.chunkBytes(LAYOUT, operation, is, bytes));
      }
    }
  }

  /** Two hosts of eight GPUs. */
  public static CommunicatorProfile ofTwoHosts(Optional<CommTopology> topology) {
    return new CommunicatorProfile(
        16,
        Device.Kind.CUDA,
        "NVIDIA H100",
        false,
        false,
        new RankPlacement(2, 8, true),
        topology,
        Optional.empty());
  }

  @Test
  void ringsAndTreesCostWhatTheTopologysModelSaysOverHostsToo() {
    CommTopology topology = topology(2, 8, 90, 18);
    CommunicatorProfile facts = ofTwoHosts(Optional.of(topology));
    CostModel costs = facts.costs();
    for (long bytes = 8; bytes <= 1L << 32; bytes *= 8) {
      float time =
          topology.costs().time(Operation.ALL_REDUCE, Algorithm.TREE, Protocol.SIMPLE, bytes);
      assertEquals(
          time, costs.microseconds(Operation.ALL_REDUCE, Algorithm.TREE, Protocol.SIMPLE, bytes));
      // NCCL has no tree of one root: as many steps as an all-reduce, and half of the bytes.
      for (Operation operation : List.of(Operation.BROADCAST, Operation.REDUCE)) {
        assertEquals(
            time, costs.microseconds(operation, Algorithm.TREE, Protocol.SIMPLE, 2 * bytes));
        assertTrue(
            topology.costs().time(operation, Algorithm.TREE, Protocol.SIMPLE, bytes) < 0,
            "NCCL's own model stays as it is");
      }
    }
    assertEquals(Algorithm.ONE_SHOT, choice(costs, Operation.ALL_REDUCE, 8).algorithm());
    assertEquals(Protocol.SIMPLE, choice(costs, Operation.ALL_REDUCE, 1L << 32).protocol());
    assertNotEquals(Algorithm.ONE_SHOT, choice(costs, Operation.ALL_REDUCE, 1L << 32).algorithm());
  }

  @Test
  void channelsFollowWhatTheLinksCarryAndTheSize() {
    CostModel nvlink = costs("NVIDIA H100", 8, true, topology(1, 8, 90, 18));
    CostModel pci = costs("NVIDIA L40S", 8, false, topology(1, 8, 89, 0));
    AlgorithmChoice ring = new AlgorithmChoice(Algorithm.RING, Protocol.SIMPLE, 1);
    assertEquals(64, nvlink.channels(Operation.ALL_REDUCE, ring, 1 << 30));
    assertTrue(nvlink.channels(Operation.ALL_REDUCE, ring, 64 << 10) < 16);
    int few = pci.channels(Operation.ALL_REDUCE, ring, 1 << 30);
    assertTrue(few >= 2 && few <= 8, few + " channels over PCI");
    for (CostModel costs : List.of(nvlink, pci)) {
      for (Algorithm algorithm : costs.overConnections(Operation.ALL_REDUCE)) {
        int before = 1;
        for (long bytes = 0; bytes <= 1L << 32; bytes = Math.max(8, bytes * 2)) {
          AlgorithmChoice choice = new AlgorithmChoice(algorithm, Protocol.SIMPLE, 1);
          int channels = costs.channels(Operation.ALL_REDUCE, choice, bytes);
          assertTrue(channels >= before && channels <= ConnectionLayout.CHANNELS);
          before = channels;
        }
      }
    }
  }

  /** All with all crosses the link between NUMA nodes more often than a ring does. */
  @Test
  void betweenNumaNodesRingsWinEarlier() {
    CostModel pci = costs("NVIDIA L40S", 8, false, topology(1, 8, 89, 0));
    assertFalse(pci.protocols().contains(Protocol.LL128));
    assertEquals(Algorithm.RING, choice(pci, Operation.ALL_REDUCE, 64 << 20).algorithm());
    assertEquals(Algorithm.RING, choice(pci, Operation.ALL_GATHER, 64 << 20).algorithm());
    assertEquals(Algorithm.ONE_SHOT, choice(pci, Operation.ALL_REDUCE, 8).algorithm());
  }

  /**
   * A GPU's multiprocessors are not the limit, as over H200's links, but flags as large as data.
   */
  @Test
  void overPcieLlHasHalfOfTheBandwidth() {
    for (int sm : new int[] {75, 80, 86, 89, 90}) {
      CommTopology topology = topology(1, 8, sm, /* nvLinks= */ 0);
      CostModel pci = costs("NVIDIA X", 8, false, topology);
      double simple = further(pci, Algorithm.ONE_SHOT, Protocol.SIMPLE);
      assertEquals(0.9 / 0.5, further(pci, Algorithm.ONE_SHOT, Protocol.LL) / simple, 1e-3);
      assertEquals(
          further(pci, Algorithm.RING, Protocol.LL) / further(pci, Algorithm.RING, Protocol.SIMPLE),
          further(pci, Algorithm.TWO_SHOT, Protocol.LL)
              / further(pci, Algorithm.TWO_SHOT, Protocol.SIMPLE)
              / 0.9,
          1e-2,
          "as NCCL's rings");
    }
    CostModel nvlink = costs("NVIDIA H100", 4, true, topology(1, 4, 90, 18));
    assertEquals(
        0.9 / 0.24,
        further(nvlink, Algorithm.ONE_SHOT, Protocol.LL)
            / further(nvlink, Algorithm.ONE_SHOT, Protocol.SIMPLE),
        1e-3);
  }

  /** Microseconds of the bytes of a large all-reduce. */
  private static double further(CostModel costs, Algorithm algorithm, Protocol protocol) {
    return costs.microseconds(Operation.ALL_REDUCE, algorithm, protocol, 1L << 30)
        - costs.microseconds(Operation.ALL_REDUCE, algorithm, protocol, 1L << 29);
  }

  /** LL128 needs stores that arrive whole, which no GPU before Volta promises. */
  @Test
  void ll128IsLeftOutWhereTheTopologyForbidsIt() {
    CostModel pascal = costs("NVIDIA P100", 4, true, topology(1, 4, 60, 4));
    for (Algorithm algorithm : Algorithm.overConnections()) {
      if (algorithm != Algorithm.NVLS) {
        assertFalse(pascal.has(algorithm, Protocol.LL128));
      }
    }
    assertFalse(choice(pascal, Operation.ALL_REDUCE, 8).protocol() == Protocol.LL128);
  }

  @Test
  void everyFigureSaysWhereItComesFrom() {
    CommTopology topology = topology(1, 4, 90, 18);
    String predicted = explain(costs("NVIDIA H100", 4, true, topology), TunerHook.NONE);
    assertTrue(line(predicted, "Ring     Simple").contains("topology, NCCL's tables"), predicted);
    assertTrue(line(predicted, "OneShot  LL128").contains("topology, share"), predicted);
    assertTrue(predicted.contains("4 GPUs on 1 nodes, 12 rings of 30.0 GB/s"), predicted);

    String measured = explain(costs("NVIDIA H200", 4, true, topology), TunerHook.NONE);
    assertTrue(line(measured, "Ring     Simple").endsWith("measured, nvidia-h200.costs"), measured);
    assertTrue(
        line(measured, "Tree     LL  ")
            .contains("not measured, twice the predicted time: topology, NCCL's tables"),
        measured);

    TunerHook tuner =
        (operation, bytes, type, ways) ->
            ways.stream()
                .map(
                    way ->
                        way.taking(
                            way.algorithm() == Algorithm.TREE ? 0.5 : Double.POSITIVE_INFINITY))
                .toList();
    String edited = explain(costs("NVIDIA H100", 4, true, topology), tuner);
    assertTrue(line(edited, "Tree     LL  ").endsWith("; the tuner sets 0.50 us"), edited);
    assertTrue(line(edited, "Ring     LL  ").contains("not allowed by"), edited);
    assertTrue(edited.contains("chosen: Tree"), edited);
  }

  @Test
  void listsThatLeaveNoWaySaySo() {
    CostModel costs = costs("NVIDIA H100", 4, true, topology(1, 4, 90, 18));
    AlgorithmFilter none = AlgorithmFilter.parse("", "^LL,LL128,Simple");
    String text =
        new AlgorithmSelector(costs, none).explain(Operation.ALL_REDUCE, 1 << 20, DataType.FLOAT32);
    assertTrue(text.contains("NCCL_ALGO and NCCL_PROTO leave none for this operation"), text);
    AlgorithmFilter tree = AlgorithmFilter.parse("Tree", "");
    text = new AlgorithmSelector(costs, tree).explain(Operation.ALL_REDUCE, 8, DataType.FLOAT32);
    assertTrue(text.contains("chosen: Tree"), text);
    assertTrue(text.contains("the cheapest that is allowed"), text);
  }

  private static String explain(CostModel costs, TunerHook edit) {
    return new AlgorithmSelector(costs, AlgorithmFilter.ALL, edit)
        .explain(Operation.ALL_REDUCE, 1 << 20, DataType.FLOAT32);
  }

  private static String line(String text, String start) {
    return text.lines().filter(l -> l.strip().startsWith(start)).findFirst().orElseThrow();
  }
}
