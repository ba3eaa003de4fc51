package org.nccl4j.it.perf.peer;

import org.nccl4j.device.DataType;
import org.nccl4j.device.kernel.QuantisedWork;
import org.nccl4j.it.perf.rank.Library;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.Workload;

/** Our own operations with data that travel quantised, on the same buffers and streams. */
public final class QuantisedPeer implements Peer {
  private final String format;
  private final NcclPeer.Timing timing;

  /**
   * A quantisation, which the ranks have.
   *
   * @param format its name
   */
  public QuantisedPeer(String format, NcclPeer.Timing timing) {
    this.format = format;
    this.timing = timing;
  }

  /** True if the operation can be quantised. */
  public static boolean has(Workload workload, DataType type) {
    return (workload == Workload.ALL_REDUCE || workload == Workload.REDUCE_SCATTER)
        && QuantisedWork.Parts.hasType(type);
  }

  @Override
  public String name() {
    return Library.QUANTISED.label();
  }

  @Override
  public String version() {
    return format;
  }

  @Override
  public boolean resembles(Cell cell) {
    return !cell.inPlace() && has(cell.workload(), cell.type());
  }

  @Override
  public double micros(Cell cell, int warmup, int iterations) {
    return timing.micros(cell, Math.max(1, warmup), iterations, Library.QUANTISED);
  }

  @Override
  public void close() {}
}
