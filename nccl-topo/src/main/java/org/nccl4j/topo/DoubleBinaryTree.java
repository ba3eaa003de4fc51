package org.nccl4j.topo;

/**
 * Two binary trees over the same ranks in which no rank is an inner node of both, so that a
 * reduction which splits its data between them uses every rank's bandwidth in both directions.
 *
 * <p>Source: Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction
 * and scan", 2009; the numbering is NCCL's. Immutable and stateless; safe from any thread.
 */
public final class DoubleBinaryTree {
  /** Stands for "no such rank". */
  public static final int NONE = -1;

  /**
   * A rank's place in one tree.
   *
   * @param up the parent, or {@link #NONE} at the root
   * @param down0 a child, or {@link #NONE}
   * @param down1 the other child, or {@link #NONE}
   */
  public record Place(int up, int down0, int down1) {}

  private DoubleBinaryTree() {}

  /**
   * The place of a rank in one of the two trees.
   *
   * @param nRanks how many ranks there are, at least 1
   * @param rank 0 to nRanks - 1
   * @param tree 0 or 1
   */
  public static Place place(int nRanks, int rank, int tree) {
    if (nRanks < 1 || rank < 0 || rank >= nRanks || tree < 0 || tree > 1) {
      throw new IllegalArgumentException(
          "no place for rank " + rank + " of " + nRanks + " in tree " + tree);
    }
    if (tree == 0) {
      return first(nRanks, rank);
    }
    if (nRanks % 2 == 0) {
      return mirrored(nRanks, first(nRanks, nRanks - 1 - rank));
    }
    return shifted(nRanks, first(nRanks, (rank - 1 + nRanks) % nRanks));
  }

  private static Place first(int nRanks, int rank) {
    if (rank == 0) {
      int top = Integer.highestOneBit(Math.max(1, nRanks - 1));
      return new Place(NONE, NONE, nRanks > 1 ? top : NONE);
    }
    int bit = Integer.lowestOneBit(rank);
    int up = (rank ^ bit) | (bit << 1);
    if (up >= nRanks) {
      up = rank ^ bit;
    }
    int low = bit >> 1;
    int down0 = low == 0 ? NONE : rank - low;
    int down1 = low == 0 ? NONE : rank + low;
    while (down1 >= nRanks) {
      low >>= 1;
      down1 = low == 0 ? NONE : rank + low;
    }
    return new Place(up, down0, down1);
  }

  private static Place mirrored(int nRanks, Place place) {
    return new Place(
        mirror(nRanks, place.up), mirror(nRanks, place.down0), mirror(nRanks, place.down1));
  }

  private static int mirror(int nRanks, int rank) {
    return rank == NONE ? NONE : nRanks - 1 - rank;
  }

  private static Place shifted(int nRanks, Place place) {
    return new Place(
        shift(nRanks, place.up), shift(nRanks, place.down0), shift(nRanks, place.down1));
  }

  private static int shift(int nRanks, int rank) {
    return rank == NONE ? NONE : (rank + 1) % nRanks;
  }
}
