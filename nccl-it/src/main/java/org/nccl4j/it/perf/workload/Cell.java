package org.nccl4j.it.perf.workload;

import java.io.Serializable;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;

/**
 * One thing to measure: half a row of the table.
 *
 * @param workload what
 * @param type of the elements
 * @param op for workloads that combine; {@link RedOp#SUM} for the others
 * @param root for workloads with one; 0 for the others
 * @param elements the size, in elements
 * @param inPlace whether send and receive buffer share memory
 */
public record Cell(
    Workload workload, DataType type, RedOp op, int root, long elements, boolean inPlace)
    implements Serializable {
  /** The buffers' sizes. */
  public Layout layout(int nRanks) {
    return workload.layout(elements, nRanks);
  }

  /** The size as in nccl-tests' table, in bytes. */
  public long bytes(int nRanks) {
    return layout(nRanks).largest() * type.bytes();
  }

  /** The same in place or out of place. */
  public Cell placed(boolean newInPlace) {
    return new Cell(workload, type, op, root, elements, newInPlace);
  }
}
