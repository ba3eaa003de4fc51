package org.nccl4j.topo.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.topo.TestMachines;
import org.nccl4j.topo.cluster.CommTopology.Host;
import org.nccl4j.topo.cluster.CommTopology.Searches;
import org.nccl4j.topo.system.RankOrder;
import org.nccl4j.topo.xml.XmlElement;

/** Machines that were searched for one communicator are the same for another. */
class SearchesTest {
  private static List<Host> machines(String name, int number) {
    List<Host> hosts = new ArrayList<>();
    for (int machine = 0; machine < number; machine++) {
      XmlElement system = TestMachines.read(name);
      int ranks = RankOrder.apply(system).size();
      int first = machine * ranks;
      hosts.add(new Host(system, IntStream.range(first, first + ranks).toArray()));
    }
    return hosts;
  }

  /** A machine alone uses no card, so that its search is not that of one among others. */
  @ParameterizedTest
  @ValueSource(strings = {"hgx-h100-2nic", "arm-2a100"})
  void searchedBeforeOrNotATopologyIsTheSame(String name) {
    Searches searches = new Searches(ClusterOptions.DEFAULT);
    int[] digests = new int[3];
    for (int number = 1; number <= digests.length; number++) {
      List<Host> hosts = machines(name, number);
      int digest = CommTopology.of(hosts, searches).digest();
      assertEquals(CommTopology.of(hosts, ClusterOptions.DEFAULT).digest(), digest);
      digests[number - 1] = digest;
    }
    assertNotEquals(digests[0], digests[1]);
    assertNotEquals(digests[1], digests[2]);
  }
}
