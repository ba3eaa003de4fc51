package org.nccl4j.transport.net.socket.link;

import java.util.Arrays;
import org.nccl4j.device.HotPath;

/**
 * The parts of messages that lanes carry over interfaces of different speeds. A message is cut into
 * pieces, and each goes to the lane that is furthest behind its share, so that small messages go to
 * different lanes in turn. Both ends of a connection come to the same parts. Owned by the thread
 * that posts.
 */
final class LaneShares {
  /** Pieces of a message at most. */
  private static final int MOST_PIECES = 64;

  private final int[] shares;

  /** By lane: bytes that it was given, less those that all were given by their shares. */
  private final long[] given;

  private final int[] parts;

  /**
   * Shares of all lanes.
   *
   * @param shares relative to each other, by lane
   */
  LaneShares(int[] shares) {
    this.shares = shares.clone();
    this.given = new long[shares.length];
    this.parts = new int[shares.length];
  }

  /**
   * Cuts the next message.
   *
   * @return bytes by lane, which follow each other in the message; good until the next call
   */
  @HotPath
  int[] cut(int bytes) {
    Arrays.fill(parts, 0);
    int piece = Math.max(DataSockets.LEAST_PART, (bytes + MOST_PIECES - 1) / MOST_PIECES);
    for (int at = 0; at < bytes; at += piece) {
      int length = Math.min(piece, bytes - at);
      int lane = furthestBehind(length);
      parts[lane] += length;
      given[lane] += length;
    }
    settle();
    return parts;
  }

  private int furthestBehind(int length) {
    int least = 0;
    for (int lane = 1; lane < shares.length; lane++) {
      if ((given[lane] + length) * shares[least] < (given[least] + length) * shares[lane]) {
        least = lane;
      }
    }
    return least;
  }

  /** Keeps the sums small. */
  private void settle() {
    long all = Long.MAX_VALUE;
    for (int lane = 0; lane < shares.length; lane++) {
      all = Math.min(all, given[lane] / shares[lane]);
    }
    for (int lane = 0; lane < shares.length; lane++) {
      given[lane] -= all * shares[lane];
    }
  }
}
