package org.nccl4j.device.kernel;

/** The five collectives that have algorithms of their own, in NCCL's order. */
public enum Collective {
  /** One rank's data to all. */
  BROADCAST("Broadcast"),
  /** All ranks' data combined, to one. */
  REDUCE("Reduce"),
  /** Each rank's data to all. */
  ALL_GATHER("AllGather"),
  /** All ranks' data combined, a part to each. */
  REDUCE_SCATTER("ReduceScatter"),
  /** All ranks' data combined, to all. */
  ALL_REDUCE("AllReduce");

  private final String label;

  Collective(String label) {
    this.label = label;
  }

  /** NCCL's name. */
  public String label() {
    return label;
  }
}
