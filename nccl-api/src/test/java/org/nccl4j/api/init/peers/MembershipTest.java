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
import org.nccl4j.device.os.AllowedCores;

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
    PeerHello hello = new PeerHello(peer(0, "a"), SECOND, List.of("P2P"), new byte[] {7}, 1, 9);
    PeerHello heard = PeerHello.fromBytes(0, hello.toBytes());
    assertEquals(SECOND, heard.cores());
    assertEquals(List.of("P2P"), heard.transports());
    assertArrayEquals(new byte[] {7}, heard.meetingPoint());
    assertEquals(9, heard.chance());
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
