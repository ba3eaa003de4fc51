package org.nccl4j.api.bootstrap.root;

/**
 * Divides the ranks among several roots: each collects a block of ranks, all blocks of nearly one
 * size. The first rank of the next block contacts the root too, as its guest: so the last rank of
 * the block gets its next one, and failures pass from root to root.
 *
 * @param nRanks of the communicator
 * @param count of roots, one for each unique id; at most nRanks
 */
public record RootPartition(int nRanks, int count) {
  static final int NO_GUEST = -1;

  /** The first rank of a root's block. */
  public int first(int root) {
    return root * (nRanks / count) + Math.min(root, nRanks % count);
  }

  /** Returns the number of ranks in a root's block. */
  public int blockSize(int root) {
    return nRanks / count + (root < nRanks % count ? 1 : 0);
  }

  /** The rank of another root that comes to this one too. */
  int guest(int root) {
    return count == 1 ? NO_GUEST : first((root + 1) % count);
  }

  /** The root of a rank's own block. */
  public int of(int rank) {
    int large = nRanks / count + 1;
    int inLarge = nRanks % count * large;
    return rank < inLarge ? rank / large : nRanks % count + (rank - inLarge) / (large - 1);
  }

  /** The root before, to which a block's first rank comes as a guest; -1 for other ranks. */
  public int hostOf(int rank) {
    int own = of(rank);
    return count > 1 && rank == first(own) ? (own + count - 1) % count : -1;
  }

  /** True if a rank comes to a root, as one of its block or as its guest. */
  boolean comes(int rank, int root) {
    return of(rank) == root || rank == guest(root);
  }

  /** Returns the number of ranks that come to a root. */
  int expected(int root) {
    return blockSize(root) + (count > 1 ? 1 : 0);
  }
}
