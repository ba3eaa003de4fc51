package org.nccl4j.topo.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.operation.Operation;
import org.nccl4j.topo.TestMachines;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.path.PeerStatus;
import org.nccl4j.topo.report.Drawing;
import org.nccl4j.topo.report.Explanation;
import org.nccl4j.topo.search.GraphValidator;
import org.nccl4j.topo.search.MachineGraphs;
import org.nccl4j.topo.tuning.Selection;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;

/**
 * Whatever a machine looks like and whatever is set, all patterns are searched and the answer is
 * valid, or a sentence says what is wrong.
 */
class RandomMachinesTest {
  private static final int ROUNDS =
      Integer.getInteger("nccl4j.rounds", Boolean.getBoolean("nccl4j.thorough") ? 150 : 40);
  private static final List<String> SETTINGS =
      List.of(
          "NCCL_CROSS_NIC=0",
          "NCCL_CROSS_NIC=1",
          "NCCL_P2P_LEVEL=SYS",
          "NCCL_P2P_LEVEL=PHB",
          "NCCL_P2P_LEVEL=NVL",
          "NCCL_P2P_LEVEL=2",
          "NCCL_P2P_DISABLE=1",
          "NCCL_SHM_DISABLE=1",
          "NCCL_PXN_DISABLE=1",
          "NCCL_NVB_DISABLE=1",
          "NCCL_NET_GDR_LEVEL=SYS",
          "NCCL_NET_GDR_LEVEL=LOC",
          "NCCL_NET_GDR_READ=0",
          "NCCL_NETDEVS_POLICY=MAX:1",
          "NCCL_NETDEVS_POLICY=ALL",
          "NCCL_MAX_NCHANNELS=1",
          "NCCL_MIN_NCHANNELS=24",
          "NCCL_MAX_CTAS=3",
          "NCCL_NTHREADS=96",
          "NCCL_NVLS_ENABLE=0",
          "NCCL_ALGO=ring;allreduce:^nvls",
          "NCCL_PROTO=^LL128",
          "NCCL4J_TOPO_COMPAT=nccl");

  @Test
  @Timeout(600)
  void everyMachineHasValidGraphsOrAReason() {
    long seed = Long.getLong("nccl4j.seed", 20260101L);
    List<String> names = TestMachines.names().toList();
    int valid = 0;
    for (int round = 0; round < ROUNDS; round++) {
      Random random = new Random(seed + round);
      XmlElement system = TestMachines.read(names.get(random.nextInt(names.size())));
      MachineMutation.apply(system, random);
      Map<String, String> values = new TreeMap<>();
      for (int i = random.nextInt(3); i > 0; i--) {
        String setting = SETTINGS.get(random.nextInt(SETTINGS.size()));
        values.put(setting.substring(0, setting.indexOf('=')), setting.split("=", 2)[1]);
      }
      int machines = 1 + random.nextInt(4);
      try {
        valid += isValid(system, values, machines, random.nextBoolean()) ? 1 : 0;
      } catch (RuntimeException | AssertionError | StackOverflowError e) {
        fail(
            "-Dnccl4j.seed=%d, %d machines, %s%n%s"
                .formatted(seed + round, machines, values, TopologyXml.write(system)),
            e);
      }
    }
    assertTrue(valid > ROUNDS / 2, "only " + valid + " machines could be used");
  }

  private static boolean isValid(
      XmlElement system, Map<String, String> values, int machines, boolean collNet) {
    TopoSettings settings = TopoSettings.parse(values);
    Cluster cluster;
    try {
      cluster =
          Cluster.of(system, machines, new ClusterOptions(settings, PeerStatus.ALLOWED, collNet));
    } catch (TopologyException e) {
      assertFalse(e.remedy().isBlank(), e.getMessage());
      assertFalse(e.where().isBlank(), e.getMessage());
      return false;
    }
    for (MachineGraphs domain : cluster.domains()) {
      GraphValidator.check(domain);
      assertTrue(Drawing.of(domain, "random").startsWith("<svg"));
    }
    CommValidator.check(cluster.comm());
    costsMakeSense(cluster);
    assertFalse(Explanation.of(cluster, settings).isBlank());
    return true;
  }

  /** Every collective has a way, whose time is positive and does not fall with the size. */
  private static void costsMakeSense(Cluster cluster) {
    int ranks = cluster.comm().shape().nRanks();
    for (Operation collective : Operation.collectives()) {
      float before = 0;
      for (int power = 3; ranks > 1 && power < 34; power += 3) {
        Selection way = cluster.costs().select(collective, 1L << power).orElseThrow();
        assertTrue(way.micros() > 0 && Float.isFinite(way.micros()), way.toString());
        assertTrue(way.micros() >= 0.5f * before, way + " after " + before);
        before = way.micros();
      }
    }
    assertEquals(ranks, cluster.comm().rings().order(0).length);
  }
}
