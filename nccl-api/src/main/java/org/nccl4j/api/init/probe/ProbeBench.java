package org.nccl4j.api.init.probe;

import org.nccl4j.device.NcclException;

/**
 * One rank's means to measure cells together with the other ranks. Used by one thread; every method
 * throws an NcclException if it fails.
 */
interface ProbeBench {
  /** Allocates what this rank needs. */
  void allocate();

  /**
   * Has all ranks reach the buffers, where they can; all ranks call it, and it fails on all or on
   * none.
   */
  void register();

  /** True if a cell can be measured; the same on all ranks. */
  boolean has(ProbeCell cell);

  /** Makes what a cell needs on this rank; launches nothing. */
  void prepare(ProbeCell cell);

  /**
   * Measures the cell that was prepared last, together with all ranks.
   *
   * @return microseconds of one operation
   */
  double measure(ProbeCell cell);

  /** True if nothing of this rank's runs any more; waits for it a little. */
  boolean isIdle();

  /** Takes back {@link #register}; all ranks call it while they are idle. */
  void deregister();

  /** Frees what this rank has allocated; nothing may run. */
  void free();

  /** The error of an operation that still waits for another rank. */
  NcclException stuck();
}
