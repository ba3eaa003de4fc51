package org.nccl4j.operation;

/** The protocols that move a connection's step, with their names in NCCL_PROTO. */
public enum Protocol {
  /** 4 bytes of data and 4 of flag in each 8-byte word: one flight, half the bandwidth. */
  LL("LL"),
  /**
   * 120 bytes of data and 8 of flag in each 128-byte line; on the host a flag in front of a slot's
   * data. One flight where a cache line holds them all.
   */
  LL128("LL128"),
  /** Data in a slot, then a tail word: two flights, all the bandwidth. */
  SIMPLE("Simple");

  private final String label;

  Protocol(String label) {
    this.label = label;
  }

  /** The name in NCCL_PROTO, in tables and in JSON. */
  public String label() {
    return label;
  }
}
