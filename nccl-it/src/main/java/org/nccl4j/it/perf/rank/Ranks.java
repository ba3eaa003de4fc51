package org.nccl4j.it.perf.rank;

import java.time.Duration;
import java.util.List;

/** All ranks of a measurement, as the coordinator sees them. Used by one thread. */
public interface Ranks extends AutoCloseable {
  /**
   * Has one rank do an order.
   *
   * @throws org.nccl4j.device.NcclException if it failed, died, or did not answer in time
   */
  Reply one(int rank, Command order, Duration patience);

  /**
   * Has all ranks do an order at once.
   *
   * @return their answers by rank
   * @throws org.nccl4j.device.NcclException naming the rank that failed, died, or did not answer in
   *     time, with the first cause
   */
  List<Reply> all(Command order, Duration patience);

  /** Ends the ranks, by force if they do not go by themselves. */
  @Override
  void close();
}
