package org.nccl4j.topo;

/** The collectives that the cost model knows, in NCCL's order and spelling. */
public enum Collective {
  /** One rank's data to all. */
  BROADCAST("Broadcast"),
  /** All ranks' data reduced to one. */
  REDUCE("Reduce"),
  /** All ranks' data to all. */
  ALL_GATHER("AllGather"),
  /** All ranks' data reduced, a part to each. */
  REDUCE_SCATTER("ReduceScatter"),
  /** All ranks' data reduced, all of it to each. */
  ALL_REDUCE("AllReduce");

  private final String label;

  Collective(String label) {
    this.label = label;
  }

  /** NCCL's spelling. */
  public String label() {
    return label;
  }

  /** True for an all-gather or a reduce-scatter, which have their own algorithms. */
  public boolean isGatherOrScatter() {
    return this == ALL_GATHER || this == REDUCE_SCATTER;
  }
}
