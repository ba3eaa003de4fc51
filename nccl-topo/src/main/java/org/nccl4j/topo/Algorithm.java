package org.nccl4j.topo;

/** The algorithms that the cost model compares, in NCCL's order and spelling. */
public enum Algorithm {
  /** Double binary trees. */
  TREE("Tree"),
  /** Rings. */
  RING("Ring"),
  /** Heads that reduce in the network, reached directly. */
  COLLNET_DIRECT("CollNetDirect"),
  /** A chain to a head that reduces in the network. */
  COLLNET_CHAIN("CollNetChain"),
  /** Reduction in the NVSwitch. */
  NVLS("NVLS"),
  /** Reduction in the NVSwitch, trees between machines. */
  NVLS_TREE("NVLSTree"),
  /** Parallel aggregated trees, one rank a machine. */
  PAT("PAT");

  private final String label;

  Algorithm(String label) {
    this.label = label;
  }

  /** NCCL's spelling. */
  public String label() {
    return label;
  }

  /** True if the network reduces. */
  public boolean isCollNet() {
    return this == COLLNET_DIRECT || this == COLLNET_CHAIN;
  }

  /** True if the NVSwitch reduces. */
  public boolean isNvls() {
    return this == NVLS || this == NVLS_TREE;
  }
}
