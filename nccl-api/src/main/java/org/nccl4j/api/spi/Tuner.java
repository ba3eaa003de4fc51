package org.nccl4j.api.spi;

import org.nccl4j.device.DataType;

/**
 * Edits the table of predicted times from which an algorithm and a protocol are chosen. Called by
 * one thread at a time, once for each shape of an operation; the choice is kept.
 *
 * <p>All ranks of a communicator must make the same edits, which may depend only on the arguments
 * and on facts that all ranks know. Ranks that choose differently hang.
 */
@FunctionalInterface
public interface Tuner {
  /**
   * Changes predicted times.
   *
   * @param collective such as "AllReduce"; "AllToAll" where ranks of several hosts can exchange by
   *     rails, with the ways Pairwise and Rails
   * @param bytes of the whole data
   * @param table the algorithms and protocols that the device and the settings allow
   */
  void tune(String collective, long bytes, DataType type, CostTable table);
}
