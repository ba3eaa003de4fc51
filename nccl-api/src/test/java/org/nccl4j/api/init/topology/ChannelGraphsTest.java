package org.nccl4j.api.init.topology;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
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
}
