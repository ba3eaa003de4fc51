package org.nccl4j.api.init.topology;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.kernel.Tree;

/** Rings and trees where no topology is asked. */
class ChannelGraphsTest {
  private static List<PeerInfo> peers(String... hosts) {
    List<PeerInfo> peers = new ArrayList<>();
    for (String host : hosts) {
      peers.add(
          new PeerInfo(peers.size(), host, "ns", "p", 0, Device.Kind.HOST, "host", List.of()));
    }
    return peers;
  }

  @Test
  void ringsFinishAHostBeforeTheNext() {
    ChannelGraphs graphs = ChannelGraphs.plain(peers("a", "b", "a", "c", "b"), 0);
    assertEquals(1, graphs.rings().size());
    assertArrayEquals(new int[] {0, 2, 1, 4, 3}, graphs.rings().get(0));
  }

  @Test
  void treesOfAllRanksAgree() {
    List<PeerInfo> peers = peers("a", "b", "a", "c", "b", "b", "a");
    for (int which = 0; which < 2; which++) {
      int roots = 0;
      for (int rank = 0; rank < peers.size(); rank++) {
        Tree tree = ChannelGraphs.plain(peers, rank).trees().get(which);
        roots += tree.up() < 0 ? 1 : 0;
        for (int child : tree.down()) {
          assertEquals(rank, ChannelGraphs.plain(peers, child).trees().get(which).up());
        }
      }
      assertEquals(1, roots);
    }
  }

  /** The same edges, with every rank on top: all ranks find the same tree, and reach its root. */
  @ParameterizedTest
  @ValueSource(strings = {"aa", "ab", "aab", "abacbba", "aaaabbbb", "abcdefghi", "aaaaaaabc"})
  void treesOfEveryRootAgree(String hosts) {
    List<PeerInfo> peers = peers(hosts.split(""));
    for (int which = 0; which < 2; which++) {
      for (int root = 0; root < peers.size(); root++) {
        List<Tree> places = new ArrayList<>();
        int edges = 0;
        for (int rank = 0; rank < peers.size(); rank++) {
          Tree own = ChannelGraphs.plain(peers, rank).trees().get(which);
          Tree place = own.from(rank, root);
          assertEquals(Set.copyOf(own.neighbours()), Set.copyOf(place.neighbours()));
          assertEquals(
              place.down().size() + (rank == root ? 0 : 1),
              place.neighbours().size(),
              "the parent");
          edges += place.down().size();
          places.add(place);
        }
        assertEquals(peers.size() - 1, edges);
        for (int rank = 0; rank < peers.size(); rank++) {
          int steps = 0;
          for (int at = rank; at != root; at = places.get(at).up()) {
            assertTrue(places.get(places.get(at).up()).down().contains(at));
            assertTrue(steps++ < peers.size(), "a cycle above " + rank);
          }
        }
        assertEquals(-1, places.get(root).up());
      }
    }
  }
}
