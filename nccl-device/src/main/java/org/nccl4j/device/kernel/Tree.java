package org.nccl4j.device.kernel;

import java.util.ArrayList;
import java.util.List;
import java.util.function.IntUnaryOperator;

/**
 * A rank's place in one tree of the double binary tree.
 *
 * @param up the parent, or -1 at the root
 * @param down the children; none at a leaf
 * @param parents the parent of each rank in this tree, or -1 at the root; computed on demand, since
 *     a table of all ranks takes much memory
 */
public record Tree(int up, List<Integer> down, IntUnaryOperator parents) {
  /** A place in a tree that is used from its own root alone. */
  public Tree(int up, List<Integer> down) {
    this(
        up,
        down,
        rank -> {
          throw new IllegalStateException("the parents of other ranks are not known");
        });
  }

  /** Returns the children and the parent, if there is one. */
  public List<Integer> neighbours() {
    List<Integer> neighbours = new ArrayList<>(down);
    if (up >= 0) {
      neighbours.add(up);
    }
    return neighbours;
  }

  /**
   * A rank's place in the same tree with another root. The neighbour in the direction of that root
   * is the parent, and all other neighbours are children.
   *
   * @param rank whose place this is
   * @param root of the new tree
   */
  public Tree from(int rank, int root) {
    int parent = rank == root ? -1 : towards(root);
    List<Integer> children = neighbours();
    children.remove((Integer) parent);
    return new Tree(parent, List.copyOf(children), parents);
  }

  private int towards(int rank) {
    for (int at = rank; at >= 0; at = parents.applyAsInt(at)) {
      if (down.contains(at)) {
        return at;
      }
    }
    return up;
  }
}
