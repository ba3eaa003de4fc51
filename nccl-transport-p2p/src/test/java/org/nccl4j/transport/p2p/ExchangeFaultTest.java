package org.nccl4j.transport.p2p;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.shm.SharedSegment;

/** Peers that are not what, or where, they should be. */
final class ExchangeFaultTest {
  private static final byte[] SECRET = new byte[16];
  private static final long BYTES = 8192;

  private static PeerInfo peer(int rank) {
    return new PeerInfo(rank, "host", "ns", "process" + rank, 0, Device.Kind.HOST, "host");
  }

  private static ShmExchange shm(int rank, long bytes) {
    ShmExchange exchange = new ShmExchange(rank, bytes, SECRET, SharedSegment::create);
    exchange.own();
    return exchange;
  }

  @Test
  void aPeerThatIsSilentIsWaitedForInWords() {
    try (ShmExchange a = shm(0, BYTES);
        ShmExchange b = shm(1, BYTES)) {
      String mailbox = a.address(peer(1));
      assertEquals(OptionalLong.empty(), a.meet(peer(1), b.address(peer(0))));
      assertEquals(
          "rank 1's shared memory has not arrived at %s, this rank's has been sent"
              .formatted(mailbox),
          a.missing(peer(1)));
    }
  }

  @Test
  void theSocketIsGoneOnceEverybodyHasEverything() {
    try (ShmExchange a = shm(0, BYTES);
        ShmExchange b = shm(1, BYTES)) {
      String toA = a.address(peer(1));
      String toB = b.address(peer(0));
      assertTrue(Files.exists(Path.of(toA)));
      assertEquals(OptionalLong.empty(), a.meet(peer(1), toB));
      assertTrue(b.meet(peer(0), toA).isPresent());
      assertTrue(a.meet(peer(1), toB).isPresent());
      assertEquals(false, Files.exists(Path.of(toA)) || Files.exists(Path.of(toB)));
      assertEquals("", a.address(peer(1)), "nothing more is needed for another connection");
    }
  }

  @Test
  void aSocketThatCannotBeSeenFromHereIsAnErrorWithTheRemedy() {
    try (ShmExchange a = shm(0, BYTES)) {
      a.address(peer(1));
      String elsewhere = Path.of(a.address(peer(1))).resolveSibling("1-00.sock").toString();
      NcclException e = assertThrows(NcclException.class, () -> a.meet(peer(1), elsewhere));
      assertContains(e, elsewhere);
      assertContains(e, "cannot be seen from this process");
      assertContains(e, "share /dev/shm (docker run --ipc=host)");
      assertContains(e, "NCCL_SHM_DISABLE=1");
    }
  }

  @Test
  void memoryOfAnotherSizeIsRefusedWithItsRank() {
    try (ShmExchange a = shm(0, BYTES);
        ShmExchange b = shm(1, 2 * BYTES)) {
      String toA = a.address(peer(1));
      String toB = b.address(peer(0));
      b.meet(peer(0), toA);
      NcclException e = assertThrows(NcclException.class, () -> a.meet(peer(1), toB));
      assertContains(e, "the shared memory of rank 1 cannot be used");
      assertContains(e, "16384 bytes, not the 8192 expected");
    }
  }

  @Test
  void memoryThatNobodyAskedForIsRefused() {
    try (ShmExchange a = shm(0, BYTES);
        ShmExchange b = shm(1, BYTES);
        ShmExchange stranger = shm(7, BYTES)) {
      String toA = a.address(peer(1));
      String toB = b.address(peer(0));
      stranger.address(peer(0));
      stranger.meet(peer(0), toA);
      NcclException e = assertThrows(NcclException.class, () -> a.meet(peer(1), toB));
      assertContains(e, "rank 7 sent memory that was not requested");
    }
  }

  @Test
  void anArenaThatIsGoneIsNotFound() {
    LocalExchange gone = new LocalExchange(BYTES);
    gone.own();
    String address = gone.address(peer(0));
    gone.close();
    try (LocalExchange a = new LocalExchange(BYTES)) {
      NcclException e = assertThrows(NcclException.class, () -> a.meet(peer(1), address));
      assertContains(e, "it has closed its communicator");
      assertThrows(NcclException.class, () -> a.meet(peer(1), "0x7f00"));
    }
  }

  @Test
  void anArenaStaysForThoseThatFoundIt() {
    LocalExchange user = new LocalExchange(BYTES);
    LocalExchange owner = new LocalExchange(BYTES);
    owner.own();
    String address = owner.address(peer(0));
    user.meet(peer(1), address);
    owner.close();
    try (LocalExchange late = new LocalExchange(BYTES)) {
      assertTrue(late.meet(peer(1), address).isPresent(), "still in use");
    }
    user.close();
    try (LocalExchange late = new LocalExchange(BYTES)) {
      assertThrows(NcclException.class, () -> late.meet(peer(1), address));
    }
  }

  private static void assertContains(NcclException e, String text) {
    assertTrue(e.getMessage().contains(text), e.getMessage());
  }
}
