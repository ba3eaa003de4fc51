package org.nccl4j.topo.cluster;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.nccl4j.topo.TestMachines;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.cluster.CommTopology.Host;
import org.nccl4j.topo.system.RankOrder;
import org.nccl4j.topo.xml.XmlElement;

/** Hosts whose drivers answer differently about peer access. */
class HostDriversTest {
  /** Two equal hosts, but that the second's driver forbids peer access between its first GPUs. */
  private static CommTopology secondForbids(String machine) {
    XmlElement first = TestMachines.read(machine);
    int ranks = RankOrder.apply(first).size();
    XmlElement second = TestMachines.read(machine);
    List<XmlElement> gpus = RankOrder.apply(second);
    gpus.get(0).set("nopeers", gpus.get(1).parent().require("busid"));
    return CommTopology.of(
        List.of(
            new Host(first, IntStream.range(0, ranks).toArray()),
            new Host(second, IntStream.range(ranks, 2 * ranks).toArray())),
        ClusterOptions.DEFAULT);
  }

  @Test
  void eachHostGoesByItsOwnDriver() {
    CommTopology found = secondForbids("pcie-8-intel");
    assertTrue(found.access(0, 1).orElseThrow().direct());
    assertFalse(found.access(8, 9).orElseThrow().direct());
    assertTrue(found.access(9, 8).orElseThrow().direct());
  }

  @Test
  void aLinkWithoutPeerAccessIsAnErrorForAll() {
    TopologyException e = assertThrows(TopologyException.class, () -> secondForbids("dgx-h100"));
    assertTrue(e.problem().contains("peer access is off between NVLink peers"), e.problem());
  }
}
