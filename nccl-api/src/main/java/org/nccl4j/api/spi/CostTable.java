package org.nccl4j.api.spi;

import java.util.List;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Protocol;

/** The choices for a collective with their predicted times. */
public interface CostTable {
  /**
   * An algorithm and a protocol with the predicted time.
   *
   * @param microseconds predicted
   */
  record Way(Algorithm algorithm, Protocol protocol, double microseconds) {}

  /** All choices, in no order. */
  List<Way> ways();

  /**
   * Changes the time of an algorithm and protocol.
   *
   * @param microseconds 0 or more; infinite to forbid it
   * @throws org.nccl4j.device.InvalidArgumentException for a choice that is not in the table, a
   *     negative time or NaN
   */
  void set(Algorithm algorithm, Protocol protocol, double microseconds);
}
