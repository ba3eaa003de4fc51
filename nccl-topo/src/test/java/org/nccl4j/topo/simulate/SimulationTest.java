package org.nccl4j.topo.simulate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Collections;
import org.junit.jupiter.api.Test;
import org.nccl4j.topo.CpuTime;
import org.nccl4j.topo.TestMachines;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;

/** A hundred thousand GPUs take seconds. */
class SimulationTest {
  @Test
  void aHundredThousandGpus() {
    Simulation simulation =
        CpuTime.assertLess(
            Duration.ofSeconds(30),
            () ->
                Simulation.of(
                    Cluster.of(TestMachines.read("dgx-h100"), 12500, ClusterOptions.DEFAULT)));
    assertEquals(100_000, simulation.cluster().comm().shape().nRanks());
    // 8 ranks of a chain, and twice the binary logarithm of the machines at most.
    assertTrue(Collections.max(simulation.treeDepths()) <= 8 + 2 * 14);
  }
}
