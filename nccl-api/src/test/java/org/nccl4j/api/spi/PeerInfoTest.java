package org.nccl4j.api.spi;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.Device;

/** Ranks of one node, and ranks that share a host. */
class PeerInfoTest {
  private static PeerInfo peer(int rank, String host, String namespace, long user) {
    return new PeerInfo(
        rank, host, namespace, "p" + rank, user, Device.Kind.CUDA, "gpu" + rank, List.of());
  }

  private static final PeerInfo SELF = peer(0, "a", "shm 1", 5);

  private static void assertApart(PeerInfo peer, String reason) {
    Support support = SELF.hostSharing(peer);
    assertTrue(!support.possible() && support.reason().contains(reason), support.toString());
    assertEquals(support.possible(), SELF.node().equals(peer.node()));
  }

  @Test
  void processesOfOneHostContainerAndUserShareIt() {
    assertTrue(SELF.sharesHost(peer(1, "a", "shm 1", 5)));
    assertEquals(SELF.node(), peer(1, "a", "shm 1", 5).node());
    assertApart(peer(1, "b", "shm 1", 5), "rank 1 is on another machine");
    assertApart(peer(1, "a", "shm 2", 5), "rank 1 is in another container");
    assertApart(peer(1, "a", "shm 1", 6), "rank 1 runs as user 6, this rank as user 5");
  }

  /** Else layouts of nodes and transports would disagree. */
  @Test
  void withoutCliquesRanksOfANodeAreThoseThatShareAHost() {
    List<PeerInfo> all = new ArrayList<>();
    for (int each = 0; each < 8; each++) {
      all.add(peer(each, "h" + (each & 1), "n" + (each >> 1 & 1), each >> 2));
    }
    for (PeerInfo a : all) {
      for (PeerInfo b : all) {
        assertEquals(a.sharesHost(b), a.node().equals(b.node()), a + " " + b);
      }
    }
  }

  @Test
  void aCliqueIsOneNodeWhateverItsContainers() {
    PeerInfo far = peer(1, "b", "shm 2", 6).withFabric("x");
    assertEquals(SELF.withFabric("x").node(), far.node());
    assertTrue(SELF.withFabric("x").sharesFabric(far));
    assertTrue(!SELF.withFabric("x").sharesHost(far));
  }
}
