package org.nccl4j.api.window;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;

/** The ranks whose windows a rank can load from and store to. */
class LsaTeamTest {
  /** A rank of each place, which is a host and, after a slash, a clique. */
  private static List<PeerInfo> peers(Device.Kind kind, String... places) {
    List<PeerInfo> peers = new ArrayList<>();
    for (String place : places) {
      String host = place.replaceAll("/.*", "");
      int rank = peers.size();
      peers.add(
          new PeerInfo(rank, host, "ns", "p" + rank, 0, kind, "gpu" + rank)
              .withFabric(place.substring(host.length())));
    }
    return peers;
  }

  @Test
  void ranksOfAHostOrOfACliqueAreOne() {
    List<PeerInfo> hosts = peers(Device.Kind.CUDA, "a", "a", "b", "b");
    assertEquals(new LsaTeam(2, 2, 1), LsaTeam.of(hosts, 3));
    List<PeerInfo> clique = peers(Device.Kind.CUDA, "a/x", "a/x", "b/x", "b/x");
    assertEquals(new LsaTeam(0, 4, 3), LsaTeam.of(clique, 3));
    List<PeerInfo> apart = peers(Device.Kind.CUDA, "a/x", "a/y");
    assertEquals(1, LsaTeam.of(apart, 0).size());
  }

  @Test
  void onlyTeamsOfSeveralHostsNeedFabricHandles() {
    List<PeerInfo> two = peers(Device.Kind.CUDA, "a/x", "a/x", "b/y", "c/y");
    assertEquals(new LsaTeam(0, 2, 1), LsaTeam.of(two, 1));
    assertFalse(LsaTeam.of(two, 1).isApart(two));
    assertTrue(LsaTeam.of(two, 2).isApart(two));
  }

  /** Which the layout and the transports count as on several hosts too. */
  @Test
  void usersAndContainersThatShareNoMemoryAreApart() {
    PeerInfo first = new PeerInfo(0, "a", "ns", "p0", 0, Device.Kind.CUDA, "gpu0");
    for (PeerInfo other :
        List.of(
            new PeerInfo(1, "a", "ns", "p1", 7, Device.Kind.CUDA, "gpu1"),
            new PeerInfo(1, "a", "other", "p1", 0, Device.Kind.CUDA, "gpu1"))) {
      assertEquals(1, LsaTeam.of(List.of(first, other), 0).size());
      List<PeerInfo> clique = List.of(first.withFabric("x"), other.withFabric("x"));
      assertEquals(2, LsaTeam.of(clique, 0).size());
      assertTrue(LsaTeam.of(clique, 0).isApart(clique));
    }
  }

  /** Kernels have flags for 128 ranks. */
  @ParameterizedTest
  @CsvSource({"32,32", "37,37", "72,72", "128,128", "130,65", "131,1"})
  void aRackIsTeamsOfEqualSize(int ranks, int size) {
    String[] places = new String[ranks];
    for (int rank = 0; rank < ranks; rank++) {
      places[rank] = "host" + rank / 4 + "/x";
    }
    assertEquals(size, LsaTeam.of(peers(Device.Kind.CUDA, places), 0).size());
    Arrays.fill(places, "host");
    assertEquals(ranks, LsaTeam.of(peers(Device.Kind.HOST, places), 0).size());
  }

  /** Windows of a prime number of ranks are reached by nobody else. */
  @ParameterizedTest
  @CsvSource({
    "131, 'have teams of 1: all teams have as many ranks, at most 128, and 131 cannot be divided into"
        + " larger ones; with 130 ranks on each, teams would have 65'",
    "129, 'have teams of 43'",
    "130, ",
    "8, ",
    "37, ",
    "72, "
  })
  void teamsThatAreSmallHaveAReason(int ranks, String reason) {
    String[] places = new String[ranks];
    Arrays.fill(places, "host/x");
    Optional<String> found =
        LsaTeam.smallness(peers(Device.Kind.CUDA, places), UnreachedPairs.NONE);
    assertEquals(reason != null, found.isPresent(), found::toString);
    assertTrue(reason == null || found.orElseThrow().contains(reason), found::toString);
    assertEquals(
        Optional.empty(), LsaTeam.smallness(peers(Device.Kind.HOST, places), UnreachedPairs.NONE));
  }

  @Test
  void machinesWithOtherNumbersOfRanksAreAReason() {
    String reason =
        "have teams of 1: all teams have as many ranks, and machines or cliques have 1 to 2";
    assertEquals(
        Optional.of(reason),
        LsaTeam.smallness(peers(Device.Kind.HOST, "a", "a", "b"), UnreachedPairs.NONE));
    assertEquals(
        Optional.empty(),
        LsaTeam.smallness(peers(Device.Kind.HOST, "a", "a", "b", "b"), UnreachedPairs.NONE));
  }

  /** GPUs between which P2P is refused, forbidden or broken. */
  @ParameterizedTest
  @CsvSource({
    "01, 1", // of four, in any case as many ranks a team
    "01 02 03, 1",
    "01 23, 1",
    "02 03 12 13, 2",
    "03, 1",
    "'', 4"
  })
  void ranksThatDoNotReachEachOtherShareNoTeam(String pairs, int size) {
    List<Set<Integer>> unreached = new ArrayList<>();
    for (int rank = 0; rank < 4; rank++) {
      Set<Integer> theirs = new TreeSet<>();
      for (String pair : pairs.isEmpty() ? new String[0] : pairs.split(" ")) {
        if (pair.charAt(0) - '0' == rank) { // only one of them says so
          theirs.add(pair.charAt(1) - '0');
        }
      }
      unreached.add(theirs);
    }
    List<PeerInfo> peers = peers(Device.Kind.CUDA, "a", "a", "a", "a");
    UnreachedPairs agreed = new UnreachedPairs(unreached);
    for (int rank = 0; rank < 4; rank++) {
      assertEquals(size, LsaTeam.of(peers, agreed, rank).size());
    }
    assertEquals(
        size < 4 && size != 2,
        LsaTeam.smallness(peers, agreed).orElse("").contains("that reach each other are 1 to"),
        () -> LsaTeam.smallness(peers, agreed).toString());
  }

  @Test
  void aSplitKeepsTheVerdictsOfItsRanks() {
    UnreachedPairs of = new UnreachedPairs(List.of(Set.of(2), Set.of(), Set.of(0), Set.of()));
    assertEquals(
        new UnreachedPairs(List.of(Set.of(), Set.of(2), Set.of(1))), of.subset(List.of(3, 2, 0)));
    assertEquals(UnreachedPairs.NONE, of.subset(List.of(0, 1, 3)));
  }
}
