package org.nccl4j.transport.p2p;

import java.util.List;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.connection.ConnectionLayout;

/**
 * The layout of connections' regions in an arena; see the package's description.
 *
 * @param capacity how many connections to a rank, and as many from it, have a place
 * @param dataBytes bytes of one data side
 */
record ArenaLayout(int capacity, long dataBytes) {
  private static final long PAGE = 4096;

  /** Connections of rings and trees, whose number does not depend on that of the ranks. */
  private static final int FIXED = 256;

  /** Connections between two ranks for what they send each other directly. */
  private static final int FOR_EACH_PEER = 32;

  /** Returns the layout for a communicator. */
  static ArenaLayout of(ConnectionLayout layout, int nRanks) {
    return new ArenaLayout(FIXED + FOR_EACH_PEER * nRanks, layout.dataBytes());
  }

  /**
   * Returns the layout for memory that is committed where it is reserved, as a GPU's is. It has one
   * connection each way with each other rank in reach, for the rank that has most of these.
   */
  static ArenaLayout committed(ConnectionLayout layout, List<PeerInfo> peers) {
    long most =
        peers.stream()
            .mapToLong(rank -> peers.stream().filter(peer -> areNear(rank, peer)).count())
            .max()
            .orElse(1);
    return new ArenaLayout((int) Math.max(1, most - 1), layout.dataBytes());
  }

  private static boolean areNear(PeerInfo a, PeerInfo b) {
    return a.sharesHost(b) || a.processId().equals(b.processId()) || a.sharesFabric(b);
  }

  /** True if the same lies at the same places. Without what a record's equals makes at run time. */
  boolean isLike(ArenaLayout other) {
    return capacity == other.capacity && dataBytes == other.dataBytes;
  }

  /** Offset of a credit side. */
  long credit(int number) {
    return check(number) * ConnectionLayout.CREDIT_BYTES;
  }

  /** Offset of a data side. */
  long data(int number) {
    return toPage(capacity * ConnectionLayout.CREDIT_BYTES) + check(number) * toPage(dataBytes);
  }

  /** Bytes of the arena. */
  long bytes() {
    return toPage(capacity * ConnectionLayout.CREDIT_BYTES) + capacity * toPage(dataBytes);
  }

  private long check(int number) {
    if (number < 0 || number >= capacity) {
      throw new InternalErrorException(
          "connection %d of a rank, whose arena has places for %d".formatted(number, capacity),
          "use fewer channels (NCCL_MAX_NCHANNELS), and report this defect");
    }
    return number;
  }

  private static long toPage(long bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
  }
}
