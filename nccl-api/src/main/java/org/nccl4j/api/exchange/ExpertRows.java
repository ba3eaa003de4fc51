package org.nccl4j.api.exchange;

import java.nio.IntBuffer;
import java.util.Arrays;
import org.nccl4j.device.kernel.ExpertSizes;

/**
 * The order of the rows of a dispatch, from the tables of all ranks. A table is a rank's number of
 * tokens, and behind it its expert numbers by token and k ({@link ExpertTables}). Received rows lie
 * by local expert, source rank, token and k.
 */
final class ExpertRows {
  private final int nRanks;
  private final int rank;
  private final int topK;
  private final int local;
  private final int table;

  /** Rows of each local expert from each rank. */
  private final int[] received;

  /** The first row of each run of {@link #received}, and behind them the number of all rows. */
  private final int[] receivedFirst;

  /**
   * Rows of one exchange.
   *
   * @param weighted true if the tables have weights
   */
  ExpertRows(ExpertSizes sizes, int rank, boolean weighted) {
    this.nRanks = sizes.nRanks();
    this.rank = rank;
    this.topK = sizes.topK();
    this.local = sizes.localExperts();
    this.table = ExpertTables.words(sizes, weighted);
    this.received = new int[local * nRanks];
    this.receivedFirst = new int[local * nRanks + 1];
  }

  /** Finds the order from the tables of all ranks. */
  void find(IntBuffer tables) {
    Arrays.fill(received, 0);
    for (int source = 0; source < nRanks; source++) {
      int entries = tables.get(source * table) * topK;
      for (int entry = 0; entry < entries; entry++) {
        int expert = tables.get(source * table + 1 + entry);
        if (expert >= 0 && expert / local == rank) {
          received[expert % local * nRanks + source]++;
        }
      }
    }
    for (int run = 0; run < received.length; run++) {
      receivedFirst[run + 1] = receivedFirst[run] + received[run];
    }
  }

  /** The experts of a rank. */
  int local() {
    return local;
  }

  /** Rows of a local expert from a rank. */
  int received(int expert, int source) {
    return received[expert * nRanks + source];
  }

  /** The first of the rows of a local expert from a rank. */
  int receivedFirst(int expert, int source) {
    return receivedFirst[expert * nRanks + source];
  }

  /** Copies the first row of each run: by local expert and source rank. */
  void copyFirsts(int[] to) {
    System.arraycopy(receivedFirst, 0, to, 0, received.length);
  }

  /** All received rows. */
  int allReceived() {
    return receivedFirst[received.length];
  }
}
