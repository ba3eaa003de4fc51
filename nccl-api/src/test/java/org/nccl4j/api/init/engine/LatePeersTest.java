package org.nccl4j.api.init.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.init.peers.HostLayout;
import org.nccl4j.api.init.topology.ChannelGraphs;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;

/** Ranks that are connected when an operation first needs it, as each of them sees it. */
class LatePeersTest {
  private static List<PeerInfo> peers(int n, int perHost, Device.Kind kind) {
    List<PeerInfo> peers = new ArrayList<>();
    for (int rank = 0; rank < n; rank++) {
      String gpu = "gpu" + rank % perHost;
      peers.add(
          new PeerInfo(rank, "host" + rank / perHost, "", "p" + rank, 0, kind, gpu, List.of()));
    }
    return peers;
  }

  private static ChannelGraphs graphs(List<PeerInfo> peers, int rank) {
    HostLayout hosts = HostLayout.of(peers);
    return new ChannelGraphs(
        List.of(hosts.ring()), List.of(hosts.tree(rank, 0), hosts.tree(rank, 1)), Optional.empty());
  }

  private static Set<Integer> late(List<PeerInfo> peers, Map<String, String> settings, int rank) {
    return LatePeers.of(
        Settings.ofProcess(settings), peers, neighbours(peers, settings, rank), rank);
  }

  private static Set<Integer> neighbours(
      List<PeerInfo> peers, Map<String, String> settings, int rank) {
    return LatePeers.neighbours(Settings.ofProcess(settings), peers, graphs(peers, rank), rank);
  }

  private static List<Set<Integer>> late(List<PeerInfo> peers, Map<String, String> settings) {
    return IntStream.range(0, peers.size()).mapToObj(rank -> late(peers, settings, rank)).toList();
  }

  @ParameterizedTest
  @CsvSource({
    "34, 1, ''",
    "40, 8, ''",
    "128, 8, ''",
    "100, 3, ''",
    "128, 8, NVLSTree",
    "70, 70, ''"
  })
  void bothRanksOfAPairFindTheSame(int n, int perHost, String algorithms) {
    List<PeerInfo> peers = peers(n, perHost, Device.Kind.CUDA);
    List<Set<Integer>> late = late(peers, Map.of("NCCL_ALGO", algorithms));
    for (int rank = 0; rank < n; rank++) {
      for (int peer = 0; peer < n; peer++) {
        boolean one = late.get(rank).contains(peer);
        assertEquals(one, late.get(peer).contains(rank), rank + " and " + peer);
        assertFalse(one && rank / perHost == peer / perHost, "on one host");
      }
      assertTrue(late.get(rank).stream().noneMatch(graphs(peers, rank).neighbours(rank)::contains));
    }
    assertEquals(perHost == n, late.get(0).isEmpty());
  }

  /** Those of a few ranks keep the channels of all cards, although all pairs are connected. */
  @ParameterizedTest
  @CsvSource({"24, 8", "33, 1", "20, 3"})
  void neighboursAreKnownWhereAllPairsAreConnected(int n, int perHost) {
    List<PeerInfo> peers = peers(n, perHost, Device.Kind.CUDA);
    for (int rank = 0; rank < n; rank++) {
      assertTrue(late(peers, Map.of(), rank).isEmpty());
      Set<Integer> mine = neighbours(peers, Map.of(), rank);
      assertTrue(mine.containsAll(graphs(peers, rank).neighbours(rank)));
      assertFalse(mine.contains(rank));
      for (int peer = 0; peer < n; peer++) {
        boolean near = mine.contains(peer);
        assertEquals(near, neighbours(peers, Map.of(), peer).contains(rank), rank + ", " + peer);
        assertTrue(near || rank == peer || rank / perHost != peer / perHost, "on one host");
      }
    }
    assertTrue(neighbours(peers, Map.of(), 0).size() < n - 1, "some are no neighbours");
  }

  @ParameterizedTest
  @CsvSource({"100, 1, true", "100, 2, true", "2000, 8, true", "4104, 8, false"})
  void patFindsItsRanksWhereThereIsPat(int n, int perHost, boolean found) {
    List<PeerInfo> peers = peers(n, perHost, Device.Kind.CUDA);
    Set<Integer> late = late(peers, Map.of(), 10);
    for (int distance : new int[] {16, 32, 64}) {
      assertEquals(!found, late.contains((10 + distance) % n), distance + " ahead");
      assertEquals(!found, late.contains((n + 10 - distance) % n), distance + " behind");
    }
    assertTrue(late.contains(10 + 33));
  }

  /** The heads of the same number on hosts that follow each other in a tree. */
  @Test
  void treesOfHeadsAreConnectedWhereNvlsTreeIsNamed() {
    List<PeerInfo> peers = peers(4104, 8, Device.Kind.CUDA); // without PAT
    Set<Integer> late = late(peers, Map.of(), 37);
    Set<Integer> named = late(peers, Map.of("NCCL_ALGO", "NVLSTree"), 37);
    assertTrue(late.containsAll(named));
    assertTrue(late.size() > named.size());
    late.stream().filter(peer -> !named.contains(peer)).forEach(peer -> assertEquals(5, peer % 8));
  }

  /** The hierarchical way goes to the rank with the same number on the hosts before and behind. */
  @Test
  void railsAreConnectedWhereHostsHaveAsManyRanks() {
    Set<Integer> even = late(peers(4104, 8, Device.Kind.CUDA), Map.of(), 13);
    assertFalse(even.contains(5) || even.contains(21));
    assertTrue(even.contains(29));
    Set<Integer> uneven = late(peers(4103, 8, Device.Kind.CUDA), Map.of(), 13);
    assertTrue(uneven.contains(5) && uneven.contains(21));
  }

  @ParameterizedTest
  @CsvSource({"33, CUDA, 1, true", "34, CUDA, 1, false", "34, CUDA, 0, true", "9, HOST, 1, false"})
  void fewGpusAndASettingHaveNone(int n, Device.Kind kind, String setting, boolean none) {
    Set<Integer> late = late(peers(n, 1, kind), Map.of("NCCL_RUNTIME_CONNECT", setting)).get(3);
    assertEquals(none, late.isEmpty());
  }
}
