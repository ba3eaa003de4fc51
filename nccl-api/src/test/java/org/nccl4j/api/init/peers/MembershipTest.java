package org.nccl4j.api.init.peers;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.kernel.Tree;
import org.nccl4j.device.os.AllowedCores;
import org.nccl4j.device.os.CoreDomain;

/** The cores of ranks, which launchers bind. */
class MembershipTest {
  private static final AllowedCores FIRST = new AllowedCores(1, "0");
  private static final AllowedCores SECOND = new AllowedCores(1, "1");
  private static final AllowedCores ALL = new AllowedCores(64, "0-63");

  private static PeerInfo peer(int rank, String host) {
    return new PeerInfo(rank, host, "ns", "p" + rank, 0, Device.Kind.HOST, "host");
  }

  private static Membership members(List<String> hosts, List<AllowedCores> cores) {
    List<PeerInfo> peers = new ArrayList<>();
    for (String host : hosts) {
      peers.add(peer(peers.size(), host));
    }
    return new Membership(peers, cores, Collections.nCopies(peers.size(), new byte[0]), "", 1);
  }

  @Test
  void coresCountByHost() {
    Membership bound = members(List.of("a", "b", "a"), List.of(FIRST, ALL, SECOND));
    assertEquals(List.of(FIRST, SECOND), bound.coresBeside(0));
    assertEquals(List.of(SECOND, FIRST), bound.coresBeside(2), "the own first");
    assertEquals(List.of(ALL), bound.coresBeside(1));
    assertEquals(2, bound.fewestCores());
    assertEquals(
        1, members(List.of("a", "b", "a"), List.of(FIRST, ALL, FIRST)).fewestCores(), "shared");
  }

  @Test
  void aPartHasItsRanksCores() {
    Membership bound = members(List.of("a", "a", "a"), List.of(FIRST, ALL, SECOND));
    Membership part = bound.subset(List.of(2, 0), "/part");
    assertEquals(List.of(SECOND, FIRST), part.cores());
    assertEquals(2, part.fewestCores());
    assertEquals(64, bound.fewestCores());
  }

  @Test
  void ranksTellTheirCores() {
    AllowedCores second = new AllowedCores(1, "1", new CoreDomain(2, 16));
    PeerHello hello = new PeerHello(peer(0, "a"), second, List.of("P2P"), new byte[] {7}, 1, 9);
    PeerHello heard = PeerHello.fromBytes(0, hello.toBytes());
    assertEquals(second, heard.cores());
    assertEquals(List.of("P2P"), heard.transports());
    assertArrayEquals(new byte[] {7}, heard.meetingPoint());
    assertEquals(9, heard.chance());
  }

  /** Of one host; a rank's node and cache are two digits. */
  private static int[] ring(String... places) {
    return ring(Collections.nCopies(places.length, "a"), places);
  }

  private static int[] ring(List<String> hosts, String... places) {
    List<AllowedCores> cores = new ArrayList<>();
    for (String place : places) {
      CoreDomain domain =
          place.equals("-")
              ? CoreDomain.NONE
              : new CoreDomain(place.charAt(0) - '0', place.charAt(1) - '0');
      cores.add(new AllowedCores(1, "0", domain));
    }
    return members(hosts, cores).layout().ring();
  }

  @Test
  void ranksOfANodeAndACacheFollowEachOther() {
    assertArrayEquals(new int[] {0, 2, 4, 1, 3}, ring("00", "18", "00", "18", "00"));
    assertArrayEquals(
        new int[] {0, 2, 4, 6, 1, 5, 3, 7},
        ring("18", "00", "18", "04", "19", "00", "19", "04"),
        "the first rank's first");
    assertArrayEquals(
        new int[] {0, 3, 1, 4, 2, 5},
        ring(List.of("a", "b", "b", "a", "b", "b"), "00", "00", "14", "00", "00", "14"),
        "host by host");
  }

  @Test
  void ranksStayInOrderWhereNothingIsGained() {
    int[] same = {0, 1, 2, 3};
    assertArrayEquals(same, ring("-", "-", "-", "-"), "nothing known");
    assertArrayEquals(same, ring("00", "14", "00", "-"), "a rank may run anywhere");
    assertArrayEquals(same, ring("00", "00", "00", "00"), "one cache");
    assertArrayEquals(same, ring("14", "14", "00", "00"), "bound one after the other");
    assertArrayEquals(same, ring("00", "04", "18", "19"), "a cache each");
  }

  /** All ranks find the same trees, whose edges between caches are few. */
  @Test
  void treesGoByNodeAndCacheToo() {
    List<AllowedCores> cores = new ArrayList<>();
    for (int rank = 0; rank < 16; rank++) {
      cores.add(new AllowedCores(1, "0", new CoreDomain(rank % 2, rank % 2)));
    }
    Membership sixteen = members(Collections.nCopies(16, "a"), cores);
    for (int which = 0; which < 2; which++) {
      int between = 0;
      for (int rank = 0; rank < 16; rank++) {
        Tree place = sixteen.layout().tree(rank, which);
        for (int child : place.down()) {
          assertEquals(rank, sixteen.layout().tree(child, which).up());
          between += (rank + child) % 2;
        }
      }
      assertTrue(between <= 3, between + " edges between the nodes");
    }
  }

  /** Part of a communicator: it may have ranks of one cache alone. */
  @Test
  void aPartHasItsOwnOrder() {
    List<AllowedCores> cores = new ArrayList<>();
    for (int rank = 0; rank < 6; rank++) {
      cores.add(new AllowedCores(1, "0", new CoreDomain(0, rank % 3)));
    }
    Membership six = members(Collections.nCopies(6, "a"), cores);
    assertArrayEquals(new int[] {0, 3, 1, 4, 2, 5}, six.layout().ring());
    assertArrayEquals(
        new int[] {0, 2, 1, 3}, six.subset(List.of(0, 1, 3, 4), "/part").layout().ring());
  }

  @Test
  void gpusKeepTheOrderOfRanks() {
    List<PeerInfo> peers = new ArrayList<>();
    List<AllowedCores> cores = new ArrayList<>();
    for (int rank = 0; rank < 4; rank++) {
      peers.add(new PeerInfo(rank, "a", "ns", "p", 0, Device.Kind.CUDA, "gpu" + rank));
      cores.add(new AllowedCores(1, "0", new CoreDomain(rank % 2, 0)));
    }
    Membership gpus = new Membership(peers, cores, Collections.nCopies(4, new byte[0]), "", 1);
    assertArrayEquals(new int[] {0, 1, 2, 3}, gpus.layout().ring());
  }

  @Test
  void aListThatIsNoneIsRefused() {
    AllowedCores cores = new AllowedCores(1, "17");
    byte[] bytes = new PeerHello(peer(0, "a"), cores, List.of(), new byte[0], 1, 9).toBytes();
    String text = new String(bytes, StandardCharsets.ISO_8859_1);
    byte[] other = text.replace("17", "1-").getBytes(StandardCharsets.ISO_8859_1);
    InvalidUsageException e =
        assertThrows(InvalidUsageException.class, () -> PeerHello.fromBytes(3, other));
    assertTrue(e.problem().startsWith("rank 3 sent an introduction that"), e.problem());
  }
}
