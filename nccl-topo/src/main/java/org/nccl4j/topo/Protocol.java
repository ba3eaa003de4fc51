package org.nccl4j.topo;

/** The protocols that the cost model compares, in NCCL's order and spelling. */
public enum Protocol {
  /** 8-byte stores with a flag. */
  LL("LL"),
  /** 128-byte lines with a flag. */
  LL128("LL128"),
  /** Slots with head and tail counters. */
  SIMPLE("Simple");

  private final String label;

  Protocol(String label) {
    this.label = label;
  }

  /** NCCL's spelling. */
  public String label() {
    return label;
  }
}
