package org.nccl4j.api.init.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.init.peers.HostLayout;
import org.nccl4j.api.multicast.MulticastProvider.Team;
import org.nccl4j.device.kernel.Tree;

class NvlsTeamsTest {
  private static final HostLayout ONE = new HostLayout(List.of(List.of(0, 1, 2, 3)));
  private static final HostLayout TWO = new HostLayout(List.of(List.of(0, 2, 4), List.of(1, 3)));

  @Test
  void withoutASearchAllRanksAreHeads() {
    NvlsTeams teams = new NvlsTeams(ONE, List.of(), 0, 20);
    assertEquals(new Team(List.of(0, 1, 2, 3), List.of(0, 1, 2, 3), 0, 20), teams.of(2));
    assertEquals(List.of(), teams.trees(2));
  }

  @Test
  void theSearchSaysWhoAreHeadsInWhichOrder() {
    assertEquals(
        new Team(List.of(0, 1, 2, 3), List.of(3, 1), 16, 64),
        new NvlsTeams(ONE, List.of(3, 1), 16, 64).of(0));
    assertEquals(List.of(2, 0, 3, 1), new NvlsTeams(ONE, List.of(2, 0, 3, 1), 16, 2).of(0).heads());
  }

  /** All ranks of a rack of 72 are members, as many as the kernels have room for are heads. */
  @Test
  void largeTeamsHaveFewerHeadsThanRanks() {
    List<Integer> rack = IntStream.range(0, 72).boxed().toList();
    Team team = new NvlsTeams(new HostLayout(List.of(rack)), rack, 16, 64).of(71);
    assertEquals(new Team(rack, rack.subList(0, 32), 16, 64), team);
  }

  @Test
  void everyMachineHasAsManyHeadsAsTheSmallest() {
    NvlsTeams teams = new NvlsTeams(TWO, List.of(), 0, 2);
    assertEquals(new Team(List.of(0, 2, 4), List.of(0, 2), 0, 2), teams.of(4));
    assertEquals(new Team(List.of(1, 3), List.of(1, 3), 0, 2), teams.of(3));
  }

  /** The two heads of a number are a tree; the root of one is a leaf of the other. */
  @Test
  void headsOfOneNumberFormTrees() {
    NvlsTeams teams = new NvlsTeams(TWO, List.of(4, 2, 3, 1), 0, 2);
    List<Tree> first = teams.trees(4);
    List<Tree> second = teams.trees(3);
    assertEquals(2, first.size());
    for (int tree = 0; tree < 2; tree++) {
      boolean root = first.get(tree).up() < 0;
      assertEquals(root ? List.of(3) : List.of(), first.get(tree).down());
      assertEquals(root ? List.of() : List.of(4), second.get(tree).down());
      assertEquals(root ? 4 : -1, second.get(tree).up());
      assertEquals(root ? -1 : 3, first.get(tree).up());
    }
    assertEquals(List.of(), teams.trees(0), "no head");
  }
}
