package org.nccl4j.topo.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TestMachines;
import org.nccl4j.topo.path.Path;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.search.ChannelGraph;
import org.nccl4j.topo.search.GraphKind;
import org.nccl4j.topo.system.Node;

/**
 * Bounds for known machines from their data sheets, without running any search: a GPU sends at most
 * what its NVLinks carry together, a machine at most what its network cards do. GB/s of one way: an
 * NVLink of V100 and A100 20, of H100 20.6, of B200 40.1; PCIe x16 12, 24 and 48 from generation 3
 * to 5, which is what a 100, 200 or 400 Gb/s card gets through.
 */
class PublicFactsTest {
  private static Cluster cluster(String name, int machines) {
    return TestMachines.cluster(name, machines, Map.of());
  }

  private static Path path(Routes routes, int from, int to) {
    Node a = routes.machine().gpuOfRank(from).orElseThrow();
    return routes.paths().path(a, routes.machine().gpuOfRank(to).orElseThrow());
  }

  /**
   * Columns: links times GB/s is what a GPU sends, and how many percent of that rings must use at
   * least. The way from GPU 0 to the last one.
   */
  @ParameterizedTest
  @CsvSource({
    "dgx1-v100,       8,  6, 20,   95, NVB",
    "dgx2-v100,      16,  6, 20,   95, NVL",
    "dgx-a100,        8, 12, 20,   95, NVL",
    "dgx-h100,        8, 18, 20.6, 95, NVL",
    "dgx-b200,        8, 18, 40.1, 95, NVL",
    "gb200-tray,      4, 18, 40.1, 95, NVL",
    "gh200-quad,      4, 18, 20.6, 85, NVL",
    "vm-4h100,        4, 18, 20.6, 95, NVL",
    "h100-two-planes, 8, 18, 20.6, 95, NVL",
    "hgx-h100-2nic,   8, 18, 20.6, 95, NVL",
  })
  void ringsWithinAMachineUseItsNvLinks(
      String name, int gpus, int links, float each, int percent, PathType last) {
    Cluster cluster = cluster(name, 1);
    assertEquals(1, cluster.domains().size());
    assertEquals(gpus, cluster.comm().shape().nRanks());
    ChannelGraph ring = cluster.domains().get(0).of(GraphKind.RING);
    float total = ring.nChannels() * ring.bwIntra();
    assertTrue(total <= links * each * 1.001f, total + " of " + links * each);
    assertTrue(total >= links * each * percent / 100, total + " of " + links * each);
    assertEquals(PathType.NVL, ring.typeIntra());
    assertEquals(last, path(cluster.whole(), 0, gpus - 1).type());
  }

  /** Columns: cards times GB/s is what a machine sends, and how much of it rings must use. */
  @ParameterizedTest
  @CsvSource({
    "dgx1-v100,       4, 12,   95",
    "dgx2-v100,       8, 12,   95",
    "dgx-a100,        8, 24,   95",
    "dgx-h100,        8, 48,   95",
    "dgx-b200,        8, 48,   95",
    "gb200-tray,      4, 48,   90",
    "gh200-quad,      4, 24,   95",
    "hgx-h100-2nic,   2, 48,   90",
    "h100-two-planes, 16, 25,  90",
    "pcie-4-bridge,   1, 24,   0",
    "pcie-8-amd,      2, 24,   0",
    "power9-6v100,    2, 12.5, 0",
    "arm-2a100,       1, 6,    95",
  })
  void ringsBetweenMachinesUseTheirCards(String name, int cards, float each, int percent) {
    Cluster cluster = cluster(name, 2);
    ChannelGraph ring = cluster.domains().get(0).of(GraphKind.RING);
    float total = ring.nChannels() * ring.bwInter();
    assertTrue(total <= cards * each * 1.001f, total + " of " + cards * each);
    assertTrue(total >= cards * each * percent / 100, total + " of " + cards * each);
    assertTrue(cluster.comm().nChannels() >= ring.nChannels());
    assertEquals(2, cluster.comm().shape().nNodes());
  }

  @Test
  void theDgx1HasTwoLinksToSomeNeighboursAndOneToOthers() {
    Routes routes = cluster("dgx1-v100", 1).whole();
    int[] bySpeed = new int[4];
    for (int gpu = 0; gpu < 8; gpu++) {
      for (int peer = 0; peer < 8; peer++) {
        Path path = path(routes, gpu, peer);
        if (gpu != peer && path.type() == PathType.NVL) {
          bySpeed[Math.round(path.bandwidth() / 20)]++;
        }
      }
    }
    // Six links a GPU to four neighbours: two by a pair of links, two by one.
    assertEquals(16, bySpeed[1]);
    assertEquals(16, bySpeed[2]);
  }

  @Test
  void cardsBesideGpusAreReachedWithoutTheCpu() {
    for (String name : List.of("dgx-a100", "dgx-h100", "dgx-b200")) {
      Routes routes = cluster(name, 2).whole();
      for (Node gpu : routes.machine().gpus()) {
        Node own = routes.locality().netOf(gpu, 0);
        assertEquals(PathType.PIX, routes.paths().path(gpu, own).type(), name);
        assertTrue(routes.gdr().allowed(gpu, own, true), name);
      }
    }
    // A Grace GPU reaches its card over C2C.
    Routes grace = cluster("gb200-tray", 2).whole();
    Node gpu = grace.machine().gpus().get(0);
    assertEquals(PathType.P2C, grace.paths().path(gpu, grace.locality().netOf(gpu, 0)).type());
  }

  @Test
  void reductionInTheSwitchNeedsHopperAndASwitch() {
    for (String name : List.of("dgx-h100", "dgx-b200", "vm-4h100", "gb200-tray")) {
      assertTrue(cluster(name, 1).comm().nvls(), name);
    }
    for (String name : List.of("dgx-a100", "dgx2-v100", "gh200-quad", "pcie-8-intel")) {
      assertEquals(0, cluster(name, 1).comm().nvlsChannels(), name);
    }
    // All GPUs pull within a machine: a head each.
    assertEquals(8, cluster("dgx-h100", 1).comm().nvlsHeads().size());
  }

  @Test
  void pcieMachinesAreAsFastAsTheirSlowestWay() {
    // Two cards below one root: one way each over x16 of generation 4.
    ChannelGraph amd = cluster("pcie-2-amd", 1).domains().get(0).of(GraphKind.RING);
    assertTrue(amd.nChannels() * amd.bwIntra() <= 24, amd.toString());
    // Between EPYC sockets 16, between Skylake sockets 10.
    ChannelGraph eight = cluster("pcie-8-amd", 1).domains().get(0).of(GraphKind.RING);
    assertTrue(eight.nChannels() * eight.bwIntra() <= 16, eight.toString());
    ChannelGraph bridges = cluster("pcie-4-bridge", 1).domains().get(0).of(GraphKind.RING);
    assertTrue(bridges.nChannels() * bridges.bwIntra() <= 24, bridges.toString());
  }

  @Test
  void aRackIsOneNvLinkDomainOfSeventyTwo() {
    Cluster rack = cluster("gb200-nvl72", 1);
    assertEquals(1, rack.domains().size());
    assertEquals(72, rack.comm().shape().nRanks());
    Routes routes = rack.whole();
    Path across = path(routes, 0, 71);
    assertEquals(PathType.NVL, across.type());
    assertEquals(18 * 40.1f, across.bandwidth(), 0.1f);
    assertTrue(rack.comm().nvls());
  }

  @Test
  void treesGrowWithTheLogarithmOfTheMachines() {
    float two = micros(2);
    float sixteen = micros(16);
    float many = micros(256);
    // From 2 to 256 machines seven more levels, each the same two hops.
    assertEquals((many - two) / 7, (sixteen - two) / 3, 0.05f * sixteen);
  }

  private static float micros(int machines) {
    return cluster("dgx-h100", machines)
        .costs()
        .cost(Operation.ALL_REDUCE, Algorithm.TREE, Protocol.LL)
        .latency();
  }
}
