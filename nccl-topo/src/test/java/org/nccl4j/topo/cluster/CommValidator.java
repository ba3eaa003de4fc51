package org.nccl4j.topo.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import org.nccl4j.topo.connect.CommGraph;
import org.nccl4j.topo.connect.Trees;

/** Checks a communicator's rings and trees against what the words mean. */
final class CommValidator {
  private CommValidator() {}

  static void check(CommGraph comm) {
    int n = comm.shape().nRanks();
    assertTrue(comm.nChannels() >= 1 && comm.nChannels() <= 64);
    for (int channel = 0; channel < comm.nChannels(); channel++) {
      int[] ring = comm.rings().order(channel);
      assertEquals(0, ring[0]);
      int[] sorted = ring.clone();
      Arrays.sort(sorted);
      for (int rank = 0; rank < n; rank++) {
        assertEquals(rank, sorted[rank]);
      }
      tree(comm, channel, n);
    }
  }

  private static void tree(CommGraph comm, int channel, int n) {
    int roots = 0;
    for (int rank = 0; rank < n; rank++) {
      Trees.Place place = comm.trees().place(rank, channel);
      int self = rank;
      for (int child : place.down()) {
        if (child >= 0) {
          assertEquals(self, comm.trees().place(child, channel).up(), "parent of " + child);
        }
      }
      if (place.up() < 0) {
        roots++;
      } else {
        int[] siblings = comm.trees().place(place.up(), channel).down();
        assertTrue(Arrays.stream(siblings).anyMatch(child -> child == self), "child " + rank);
      }
      int at = rank;
      for (int steps = 0; at >= 0; steps++) {
        assertTrue(steps <= n, "a cycle");
        at = comm.trees().place(at, channel).up();
      }
    }
    assertEquals(1, roots, "roots of channel " + channel);
  }
}
