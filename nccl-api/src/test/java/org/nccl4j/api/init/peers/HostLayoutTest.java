package org.nccl4j.api.init.peers;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;

class HostLayoutTest {
  private static HostLayout hosts(int hosts, int ranksAHost) {
    List<List<Integer>> ranks = new ArrayList<>();
    for (int host = 0; host < hosts; host++) {
      List<Integer> mine = new ArrayList<>();
      for (int rank = 0; rank < ranksAHost; rank++) {
        mine.add(host * ranksAHost + rank);
      }
      ranks.add(mine);
    }
    return new HostLayout(ranks);
  }

  /** Only a network connects them, as from host to host. */
  @Test
  void ranksOfAMachineThatShareNoMemoryAreOnSeveralHosts() {
    List<PeerInfo> peers = new ArrayList<>();
    for (String place : List.of("a ns 0", "a other 0", "a ns 7", "a ns 0", "b ns 0")) {
      String[] words = place.split(" ");
      peers.add(
          new PeerInfo(
              peers.size(),
              words[0],
              words[1],
              "p" + peers.size(),
              Long.parseLong(words[2]),
              Device.Kind.CUDA,
              "gpu" + peers.size()));
    }
    assertEquals(
        List.of(List.of(0, 3), List.of(1), List.of(2), List.of(4)), HostLayout.of(peers).ranks());
    List<PeerInfo> clique = peers.stream().map(peer -> peer.withFabric("x")).toList();
    assertEquals(1, HostLayout.of(clique).count());
  }

  /** One host's as ever; of several the most of one, unless there are far more elsewhere. */
  @ParameterizedTest
  @CsvSource({"1,1,1", "1,2,2", "1,8,8", "2,1,2", "2,8,8", "8,1,2", "31,8,31", "254,1,32"})
  void slotsAreMadeForTheRanksThatOneDeviceHolds(int hosts, int ranksAHost, int sharing) {
    assertEquals(sharing, hosts(hosts, ranksAHost).sharingSlots(/* late= */ false));
  }

  /** Of ranks that are connected late few have slots. */
  @ParameterizedTest
  @CsvSource({"1,8,8", "9,8,8", "512,8,8", "513,8,9", "4096,8,64"})
  void slotsStayLargeWhereFewRanksAreConnected(int hosts, int ranksAHost, int sharing) {
    assertEquals(sharing, hosts(hosts, ranksAHost).sharingSlots(/* late= */ true));
  }
}
