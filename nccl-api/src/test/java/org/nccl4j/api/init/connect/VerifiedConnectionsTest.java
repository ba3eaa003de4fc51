package org.nccl4j.api.init.connect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** The order in which a rank connects with the others. */
class VerifiedConnectionsTest {
  @Test
  void neighboursAreFirst() {
    Set<Integer> neighbours = new TreeSet<>(Set.of(4, 7));
    assertEquals(
        List.of(4, 7, 1, 2, 6, 3, 5), new ArrayList<>(VerifiedConnections.order(0, 8, neighbours)));
  }

  @Test
  void allOthersAreConnected() {
    for (int nRanks = 1; nRanks < 9; nRanks++) {
      for (int rank = 0; rank < nRanks; rank++) {
        Set<Integer> others = new TreeSet<>();
        IntStream.range(0, nRanks).forEach(others::add);
        others.remove(rank);
        assertEquals(others, VerifiedConnections.order(rank, nRanks, Set.of()));
      }
    }
  }

  /** So no rank is among the first of all the others. */
  @Test
  void aRankIsAtMostOnePlaceLaterForTheOther() {
    int nRanks = 64;
    for (int rank = 0; rank < nRanks; rank++) {
      List<Integer> mine = new ArrayList<>(VerifiedConnections.order(rank, nRanks, Set.of()));
      for (int peer : mine) {
        List<Integer> theirs = new ArrayList<>(VerifiedConnections.order(peer, nRanks, Set.of()));
        assertTrue(Math.abs(mine.indexOf(peer) - theirs.indexOf(rank)) <= 1, rank + " " + peer);
      }
    }
  }
}
