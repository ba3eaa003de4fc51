package org.nccl4j.device.host.kernel.algorithm;

/**
 * The parallel aggregated trees (PAT) of a rank. Every rank's part has a binomial tree of its own,
 * and all trees are the same but for where they begin: in the one of rank r, the rank at r + o has
 * a child at r + o + d for each power of two d that o is a multiple of 2 d of, if o + d is less
 * than the number of ranks. So at each distance d a rank exchanges with one rank on either side,
 * and what goes there, of many trees, goes as one message: a collective takes a logarithm of the
 * ranks in messages, and moves every part once.
 *
 * @param rank this rank
 * @param nRanks all ranks
 */
public record PatTrees(int rank, int nRanks) {
  /** Returns the number of distances: 1, 2, 4, ... */
  public int distances() {
    return Integer.SIZE - Integer.numberOfLeadingZeros(nRanks - 1);
  }

  /** In how many trees this rank, as any other, has a child at a distance. */
  int children(int distance) {
    return (nRanks - distance + 2 * distance - 1) / (2 * distance);
  }

  /** The most trees that share a message. */
  int most() {
    return Math.max(1, children(1));
  }

  /** The rank some places after this one, or before it. */
  public int at(int places) {
    return Math.floorMod(rank + places, nRanks);
  }

  /** The i-th tree in which this rank has a child at a distance, by its root. */
  int above(int distance, int i) {
    return at(-2 * distance * i);
  }

  /** The i-th tree in which this rank is a child at a distance, by its root. */
  int below(int distance, int i) {
    return at(-distance - 2 * distance * i);
  }

  /**
   * The place, in the messages of a smaller distance, of a tree in which this rank is so far from
   * the root; -1 if it has no child there.
   */
  int place(int fromRoot, int distance) {
    int i = fromRoot / (2 * distance);
    return i < children(distance) ? i : -1;
  }

  /** The chunk of one tree in a message of some bytes; 0 if it has no room for an element. */
  public int chunkBytes(int messageBytes, int elementBytes) {
    int chunk = messageBytes / most();
    int whole = chunk - chunk % elementBytes;
    return whole > 64 ? whole & -64 : whole;
  }
}
