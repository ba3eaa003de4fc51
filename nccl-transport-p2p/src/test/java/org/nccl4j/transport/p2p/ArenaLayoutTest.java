package org.nccl4j.transport.p2p;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.connection.ConnectionLayout;

final class ArenaLayoutTest {
  /** The smallest pieces that an arena is made of. */
  private static final int PIECE = 256;

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 8, 64})
  void noTwoRegionsShareAPieceAndAllLieInside(int nRanks) {
    ArenaLayout layout = ArenaLayout.of(new ConnectionLayout(16, 0, 1152), nRanks);
    BitSet taken = new BitSet();
    for (int number = 0; number < layout.capacity(); number++) {
      assertEquals(0, layout.data(number) % 4096);
      take(taken, layout.data(number), layout.dataBytes());
      take(taken, layout.credit(number), ConnectionLayout.CREDIT_BYTES);
    }
    assertTrue((long) taken.length() * PIECE <= layout.bytes());
  }

  private static void take(BitSet taken, long offset, long bytes) {
    assertEquals(0, offset % PIECE);
    int from = (int) (offset / PIECE);
    int to = (int) ((offset + bytes + PIECE - 1) / PIECE);
    assertTrue(taken.nextSetBit(from) < 0 || taken.nextSetBit(from) >= to, "overlap");
    taken.set(from, to);
  }

  @Test
  void gpusHavePlacesForTheRanksInReachAloneAndAllAlike() {
    ConnectionLayout connection = new ConnectionLayout(16, 0, 1152);
    List<PeerInfo> peers = new ArrayList<>();
    for (String host : List.of("a", "a", "a", "b", "c", "c")) {
      int rank = peers.size();
      peers.add(new PeerInfo(rank, host, "ns", "p" + rank, 0, Device.Kind.CUDA, "gpu" + rank));
    }
    assertEquals(2, ArenaLayout.committed(connection, peers).capacity());
    assertEquals(1, ArenaLayout.committed(connection, peers.subList(3, 5)).capacity());
    peers.replaceAll(peer -> peer.withFabric(peer.rank() < 4 ? "clique" : "other"));
    assertEquals(3, ArenaLayout.committed(connection, peers).capacity());
  }

  @Test
  void refusesANumberThatHasNoPlace() {
    ArenaLayout layout = new ArenaLayout(4, 512);
    assertThrows(InternalErrorException.class, () -> layout.data(4));
    assertThrows(InternalErrorException.class, () -> layout.credit(-1));
  }
}
