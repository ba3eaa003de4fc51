package org.nccl4j.topo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashSet;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Properties that make two trees a double binary tree, for every size up to 600. */
class DoubleBinaryTreeTest {
  private static final int SIZES = 600;

  @Test
  void parentsAndChildrenAgree() {
    for (int n = 1; n <= SIZES; n++) {
      for (int tree = 0; tree < 2; tree++) {
        for (int rank = 0; rank < n; rank++) {
          DoubleBinaryTree.Place place = DoubleBinaryTree.place(n, rank, tree);
          for (int child : new int[] {place.down0(), place.down1()}) {
            if (child != DoubleBinaryTree.NONE) {
              assertEquals(rank, DoubleBinaryTree.place(n, child, tree).up());
            }
          }
          if (place.up() != DoubleBinaryTree.NONE) {
            DoubleBinaryTree.Place up = DoubleBinaryTree.place(n, place.up(), tree);
            assertTrue(up.down0() == rank || up.down1() == rank);
          }
        }
      }
    }
  }

  @Test
  void everyRankHangsOnTheOneRoot() {
    for (int n = 1; n <= SIZES; n++) {
      for (int tree = 0; tree < 2; tree++) {
        Set<Integer> roots = new HashSet<>();
        int deepest = 0;
        for (int rank = 0; rank < n; rank++) {
          int at = rank;
          int depth = 0;
          while (DoubleBinaryTree.place(n, at, tree).up() != DoubleBinaryTree.NONE) {
            at = DoubleBinaryTree.place(n, at, tree).up();
            depth++;
            assertTrue(depth <= n, "a cycle");
          }
          roots.add(at);
          deepest = Math.max(deepest, depth);
        }
        assertEquals(1, roots.size());
        assertTrue(deepest <= 33 - Integer.numberOfLeadingZeros(n), n + " is " + deepest + " deep");
      }
    }
  }

  @Test
  void noRankIsInnerInBoth() {
    for (int n = 3; n <= SIZES; n++) {
      for (int rank = 0; rank < n; rank++) {
        assertFalse(children(n, rank, 0) == 2 && children(n, rank, 1) == 2, rank + " of " + n);
      }
    }
  }

  private static int children(int n, int rank, int tree) {
    DoubleBinaryTree.Place place = DoubleBinaryTree.place(n, rank, tree);
    return (place.down0() == DoubleBinaryTree.NONE ? 0 : 1)
        + (place.down1() == DoubleBinaryTree.NONE ? 0 : 1);
  }

  @ParameterizedTest
  @ValueSource(ints = {-1, 4, 100})
  void ranksThatAreNotThereAreRefused(int rank) {
    assertThrows(IllegalArgumentException.class, () -> DoubleBinaryTree.place(4, rank, 0));
  }
}
