package org.nccl4j.topo;

/** The shape that a graph search looks for. {@link #id()} is NCCL's number in graph files. */
public enum Pattern {
  /** A chain of GPUs whose network traffic is spread over the first two. */
  BALANCED_TREE(1),
  /** A chain whose parent traffic is at the first GPU and child traffic at the second. */
  SPLIT_TREE(2),
  /** A chain with all network traffic at the first GPU. */
  TREE(3),
  /** A ring, open at the network if there is one. */
  RING(4),
  /** Heads that pull from the NVSwitch for all. */
  NVLS(5),
  /** Heads that every other GPU reaches directly. */
  COLLNET_DIRECT(6);

  private final int id;

  Pattern(int id) {
    this.id = id;
  }

  /** NCCL's number. */
  public int id() {
    return id;
  }

  /** True if it is one of the tree shapes. */
  public boolean isTree() {
    return this == BALANCED_TREE || this == SPLIT_TREE || this == TREE;
  }

  /** True if a channel is a head and a network, rather than an order of all GPUs. */
  public boolean isHeads() {
    return this == NVLS || this == COLLNET_DIRECT;
  }

  /** The pattern of that number. */
  public static Pattern of(int id) {
    for (Pattern pattern : values()) {
      if (pattern.id == id) {
        return pattern;
      }
    }
    throw new IllegalArgumentException("no pattern has the number " + id);
  }
}
