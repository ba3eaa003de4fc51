package org.nccl4j.it.perf.workload;

/**
 * A run of a receive buffer, and what it must hold afterwards.
 *
 * @param at where it begins in the receive buffer, in elements
 * @param count its elements
 * @param source the rank whose send buffer is copied, or {@link #COMBINED}
 * @param from the first element of the send buffers that it comes from
 */
public record Segment(long at, long count, int source, long from) {
  /** The source of an element that all ranks' elements are combined into. */
  public static final int COMBINED = -1;
}
