package org.nccl4j.api.init.peers;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;

/** The line that says why ranks of a machine share no memory. */
class RankExchangeTest {
  private static PeerInfo peer(int rank, String host, String namespace, long user) {
    return new PeerInfo(
        rank, host, namespace, "p" + rank, user, Device.Kind.CUDA, "gpu" + rank, List.of());
  }

  @Test
  void ranksOfOtherMachinesAreNotNamed() {
    PeerInfo own = peer(0, "a", "ns", 0);
    List<PeerInfo> peers = List.of(own, peer(1, "a", "ns", 0), peer(2, "b", "other", 7));
    assertEquals(Optional.empty(), RankExchange.obstacle(own, peers));
  }

  @Test
  void containersAndUsersAreNamed() {
    PeerInfo own = peer(1, "a", "ns", 0);
    List<PeerInfo> peers =
        List.of(peer(0, "a", "other", 0), own, peer(2, "a", "other", 7), peer(3, "a", "third", 7));
    assertEquals(
        "shares no memory of the host with ranks [0, 2, 3] of its machine, and a network connects"
            + " them: they run as users [7] and this rank as user 0 (give all ranks one user); they"
            + " are in other containers, which share neither /dev/shm nor the user namespace with"
            + " this one (docker run --ipc=host, hostIPC in Kubernetes)",
        RankExchange.obstacle(own, peers).orElseThrow());
  }

  @Test
  void aCliqueConnectsTheirGpus() {
    PeerInfo own = peer(0, "a", "ns", 0).withFabric("x");
    List<PeerInfo> peers = List.of(own, peer(1, "a", "ns", 7).withFabric("x"));
    assertEquals(
        "shares no memory of the host with ranks [1] of its machine, and reaches their GPUs by"
            + " NVLink's fabric handles: they run as users [7] and this rank as user 0 (give all"
            + " ranks one user)",
        RankExchange.obstacle(own, peers).orElseThrow());
  }
}
