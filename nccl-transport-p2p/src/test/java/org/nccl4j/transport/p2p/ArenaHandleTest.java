package org.nccl4j.transport.p2p;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.NcclException;
import org.nccl4j.transport.p2p.ArenaHandle.End;

final class ArenaHandleTest {
  private static final ArenaLayout LAYOUT = new ArenaLayout(320, 655_616);
  private static final ArenaHandle HANDLE =
      new ArenaHandle(End.RECEIVER, 3, 17, LAYOUT, "/tmp/nccl4j-1000/77-00ff.sock");

  private static PeerInfo peer(int rank) {
    return new PeerInfo(rank, "host", "ns", "process", 1000, Device.Kind.HOST, "host");
  }

  @Test
  void comesBackAsItWas() {
    assertEquals(HANDLE, ArenaHandle.decode(HANDLE.encode(), peer(3), End.RECEIVER, LAYOUT));
  }

  @Test
  void fitsWithTheLongestPathOfASocket() {
    ArenaHandle longest = new ArenaHandle(End.SENDER, 3, 17, LAYOUT, "x".repeat(107));
    assertTrue(longest.encode().length <= 256);
  }

  @Test
  void isRefusedWithTheReasonWhereItDoesNotBelong() {
    byte[] good = HANDLE.encode();
    assertRefused("not of this transport", new byte[0], 3, End.RECEIVER, LAYOUT);
    assertRefused("not of this transport", Arrays.copyOf(good, 25), 3, End.RECEIVER, LAYOUT);
    assertRefused("instead of the receiver of rank 2", good, 2, End.RECEIVER, LAYOUT);
    assertRefused("instead of the sender of rank 3", good, 3, End.SENDER, LAYOUT);
    assertRefused("capacity=8", good, 3, End.RECEIVER, new ArenaLayout(8, 655_616));
    assertRefused("dataBytes=4096", good, 3, End.RECEIVER, new ArenaLayout(320, 4096));
    byte[] badNumber = new ArenaHandle(End.RECEIVER, 3, -1, LAYOUT, "").encode();
    assertRefused("number -1", badNumber, 3, End.RECEIVER, LAYOUT);
    for (int at = 0; at < 5; at++) {
      byte[] flipped = good.clone();
      flipped[at] ^= 0x40;
      assertRefused("not of this transport", flipped, 3, End.RECEIVER, LAYOUT);
    }
  }

  private static void assertRefused(
      String reason, byte[] bytes, int rank, End end, ArenaLayout layout) {
    NcclException e =
        assertThrows(NcclException.class, () -> ArenaHandle.decode(bytes, peer(rank), end, layout));
    assertTrue(e.getMessage().contains(reason), e.getMessage());
  }
}
