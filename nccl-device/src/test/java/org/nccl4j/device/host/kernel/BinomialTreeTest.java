package org.nccl4j.device.host.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.host.kernel.algorithm.BinomialTree;
import org.nccl4j.device.host.kernel.algorithm.Ring;

class BinomialTreeTest {
  /** Even ranks first, as those of two caches that are bound by turns. */
  private static int[] evenFirst(int n) {
    return IntStream.range(0, 2 * n).filter(r -> r % n % 2 == r / n).map(r -> r % n).toArray();
  }

  private static BinomialTree tree(int[] order, int rank, int root) {
    return new BinomialTree(Ring.of(order, rank), root);
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 3, 4, 5, 6, 7, 8, 9, 16})
  void parentsAndChildrenAgree(int n) {
    int[] order = evenFirst(n);
    for (int root = 0; root < n; root++) {
      int edges = 0;
      for (int rank = 0; rank < n; rank++) {
        for (int child : tree(order, rank, root).children()) {
          assertEquals(List.of(rank), tree(order, child, root).parent());
          edges++;
        }
      }
      assertEquals(n - 1, edges);
      assertEquals(List.of(), tree(order, root, root).parent());
    }
  }

  /** In the order of ranks, 8 of the 15 edges are between even and odd ranks. */
  @Test
  void fewEdgesAreBetweenHalvesOfTheRing() {
    int n = 16;
    int sum = 0;
    for (int root = 0; root < n; root++) {
      int between = 0;
      for (int rank = 0; rank < n; rank++) {
        for (int child : tree(evenFirst(n), rank, root).children()) {
          between += (rank + child) % 2;
        }
      }
      assertTrue(between < 8, between + " of root " + root);
      sum += between;
    }
    assertEquals(4 * n, sum);
  }
}
