package org.nccl4j.topo.tuning;

/**
 * The cost of an algorithm and protocol: a line over the size.
 *
 * @param latency in microseconds
 * @param bandwidth in GB/s of the algorithm; 0 if it is not available
 */
public record Cost(float latency, float bandwidth) {
  /** Not available. */
  static final Cost NONE = new Cost(0, 0);

  /** True if it can be used. */
  public boolean available() {
    return bandwidth > 0;
  }

  /** The same in every process, and made at once, which a record's own is not. */
  @Override
  public int hashCode() {
    return 31 * Float.hashCode(latency) + Float.hashCode(bandwidth);
  }

  Cost disabled() {
    return new Cost(latency, 0);
  }
}
