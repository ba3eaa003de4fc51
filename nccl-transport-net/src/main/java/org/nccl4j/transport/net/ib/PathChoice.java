package org.nccl4j.transport.net.ib;

import java.util.Arrays;

/**
 * Chooses the ports of the next attempt of a move: of this host and the other, both up. Pairs that
 * have failed less often come first; among these the pair in use, then the one that the connection
 * was made at, then ports of the same place on both hosts, which a network of separate rails
 * connects, then all others.
 */
final class PathChoice {
  /**
   * A pair of ports.
   *
   * @param here the place among this host's
   * @param there the place among the other's
   */
  record Path(int here, int there) {}

  private final int count;
  private final int remoteCount;
  private final Path home;
  private final int[][] failures;

  PathChoice(int count, int remoteCount, Path home) {
    this.count = count;
    this.remoteCount = remoteCount;
    this.home = home;
    this.failures = new int[count][remoteCount];
  }

  /** The best path; null if no two ports are up. */
  Path next(Path current, long activeHere, long activeThere) {
    Path best = null;
    int least = Integer.MAX_VALUE;
    for (int here = 0; here < count; here++) {
      for (int there = 0; there < remoteCount; there++) {
        Path path = new Path(here, there);
        int rank = 4 * failures[here][there] + preference(path, current);
        if ((activeHere >>> here & activeThere >>> there & 1) != 0 && rank < least) {
          least = rank;
          best = path;
        }
      }
    }
    return best;
  }

  private int preference(Path path, Path current) {
    if (path.equals(current)) {
      return 0;
    }
    boolean rail = path.here() - home.here() == path.there() - home.there();
    return path.equals(home) ? 1 : rail ? 2 : 3;
  }

  void failed(Path path) {
    failures[path.here()][path.there()]++;
  }

  int failures(Path path) {
    return failures[path.here()][path.there()];
  }

  /** A path works: the failures of the others count no longer. */
  void forget() {
    for (int[] row : failures) {
      Arrays.fill(row, 0);
    }
  }
}
