package org.nccl4j.topo.search;

import org.nccl4j.topo.Pattern;

/** The graphs that a communicator has. {@link #id()} is NCCL's number in graph files. */
public enum GraphKind {
  /** Rings. */
  RING(0, "ring", Pattern.RING),
  /** Trees. */
  TREE(1, "tree", Pattern.BALANCED_TREE),
  /** Chains to a network that reduces. */
  COLLNET_CHAIN(2, "collnetChain", Pattern.TREE),
  /** Heads at networks that reduce. */
  COLLNET_DIRECT(4, "collnetDirect", Pattern.COLLNET_DIRECT),
  /** Heads at the NVSwitch. */
  NVLS(3, "nvls", Pattern.NVLS);

  private final int id;
  private final String label;
  private final Pattern pattern;

  GraphKind(int id, String label, Pattern pattern) {
    this.id = id;
    this.label = label;
    this.pattern = pattern;
  }

  /** NCCL's number. */
  public int id() {
    return id;
  }

  /** The name in reports. */
  public String label() {
    return label;
  }

  /** The shape that is tried first. */
  public Pattern pattern() {
    return pattern;
  }

  /** True if only networks that reduce will do. */
  public boolean needsCollNet() {
    return this == COLLNET_CHAIN || this == COLLNET_DIRECT;
  }
}
