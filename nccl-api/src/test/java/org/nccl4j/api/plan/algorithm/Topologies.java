package org.nccl4j.api.plan.algorithm;

import org.nccl4j.api.plan.cost.TopologyCostModelTest;
import org.nccl4j.topo.cluster.CommTopology;

/** Topologies of one machine for tests of other packages. */
public final class Topologies {
  private Topologies() {}

  /** GPUs of compute capability 8.6 on PCIe, half of them on each NUMA node. */
  public static CommTopology pcie(int gpus) {
    return TopologyCostModelTest.topology(1, gpus, 86, /* nvLinks= */ 0);
  }

  /** GPUs as H200 with 18 links to a switch. */
  public static CommTopology nvlink(int gpus) {
    return TopologyCostModelTest.topology(1, gpus, 90, /* nvLinks= */ 18);
  }
}
