package org.nccl4j.api.spi;

import org.nccl4j.device.DataType;
import org.nccl4j.operation.Operation;

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
   * @param operation a collective; all-to-all where ranks of several hosts can exchange by rails,
   *     with the choices {@code PAIRWISE} and {@code RAILS}
   * @param bytes of the whole data
   * @param table the algorithms and protocols that the device and the settings allow
   */
  void tune(Operation operation, long bytes, DataType type, CostTable table);
}
