package org.nccl4j.it.perf.peer;

import org.nccl4j.it.perf.workload.Cell;

/** Another library that is measured beside ours. Used by one thread. */
public interface Peer extends AutoCloseable {
  /** Returns the peer's name in reports. */
  String name();

  /** Returns the peer's version. */
  String version();

  /**
   * True if this is the cell that the library's operation is like: it does most out of place.
   *
   * @param cell of a workload, in place or out of place
   */
  boolean resembles(Cell cell);

  /**
   * Microseconds an operation, mean over iterations and ranks.
   *
   * @param cell the same that ours does
   * @throws org.nccl4j.device.NcclException if the peer died or does not answer
   */
  double micros(Cell cell, int warmup, int iterations);

  @Override
  void close();
}
