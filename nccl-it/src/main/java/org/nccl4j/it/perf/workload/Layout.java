package org.nccl4j.it.perf.workload;

/**
 * The numbers of elements of a workload's buffers on one rank.
 *
 * @param count the count that the call is given, as in the table's count column
 * @param send elements of the send buffer
 * @param recv elements of the receive buffer
 */
public record Layout(long count, long send, long recv) {
  /** Returns the largest number of elements, which nccl-tests shows as the size. */
  public long largest() {
    return Math.max(send, recv);
  }
}
