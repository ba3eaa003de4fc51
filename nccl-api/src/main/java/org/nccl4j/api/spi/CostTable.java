package org.nccl4j.api.spi;

import java.util.List;

/** The choices for a collective with their predicted times. */
public interface CostTable {
  /**
   * A way.
   *
   * @param algorithm as NCCL_ALGO names it
   * @param protocol as NCCL_PROTO names it
   * @param microseconds predicted
   */
  record Way(String algorithm, String protocol, double microseconds) {}

  /** All ways, in no order. */
  List<Way> ways();

  /**
   * Changes the time of a way.
   *
   * @param microseconds 0 or more; infinite to forbid it
   * @throws org.nccl4j.device.InvalidArgumentException for a way that is not in the table, a
   *     negative time or NaN
   */
  void set(String algorithm, String protocol, double microseconds);
}
