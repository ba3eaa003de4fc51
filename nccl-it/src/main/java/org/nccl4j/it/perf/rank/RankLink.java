package org.nccl4j.it.perf.rank;

import java.time.Duration;

/** The way to one rank and back. Used by one thread. */
interface RankLink extends AutoCloseable {
  /** Hands over an order without waiting for it to be done. */
  void give(Command order);

  /**
   * The answer to the last order.
   *
   * @return null if there is none yet
   * @throws org.nccl4j.device.NcclException if there never will be one
   */
  Reply poll(Duration patience) throws InterruptedException;

  /** Returns, of a rank that does not answer, its place and its last output. */
  String lastWords();

  /** Ends the rank by force. */
  @Override
  void close();
}
