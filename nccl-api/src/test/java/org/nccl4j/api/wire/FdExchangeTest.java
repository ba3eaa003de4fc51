package org.nccl4j.api.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.device.shm.SharedSegment;

/** Descriptors come where they are expected, once, and nothing is left open. */
class FdExchangeTest {
  private static final byte[] SECRET = {1, 2, 3};

  private final FdExchange a = FdExchange.open(SECRET);
  private final FdExchange b = FdExchange.open(SECRET);
  private final SharedSegment segment = SharedSegment.create(4096);

  @AfterEach
  void close() {
    a.close();
    b.close();
    segment.close();
  }

  @Test
  void aDescriptorComesWithItsNote() {
    b.expect(7);
    assertEquals(Optional.empty(), b.take(7));
    assertTrue(a.give(b.path(), 7, segment.fd(), new byte[] {4, 5}));
    FdExchange.Received received = b.take(7).orElseThrow();
    assertArrayEquals(new byte[] {4, 5}, received.note());
    new OwnedFd(received.fd()).close();
    assertEquals(Optional.empty(), b.take(7));
  }

  @Test
  void whatWasNotAskedForOrComesTwiceIsRefused() {
    b.expect(0);
    a.give(b.path(), 7, segment.fd());
    RemoteException wrong = assertThrows(RemoteException.class, () -> b.take(0));
    assertTrue(
        wrong.getMessage().contains("rank 7 sent memory that was not requested"),
        wrong.getMessage());
    a.give(b.path(), 0, segment.fd());
    new OwnedFd(b.take(0).orElseThrow().fd()).close();
    a.give(b.path(), 0, segment.fd());
    assertThrows(RemoteException.class, () -> b.take(0));
  }

  @Test
  void aSwapSaysWhatIsMissing() {
    FdExchange.Missing missing =
        a.swap(0, segment.fd(), Map.of(1, b.path()), Set.of(1, 2), System.nanoTime());
    assertEquals(Set.of(1, 2), missing.givers());
    assertEquals(Set.of(), missing.takers());
    missing = b.swap(1, segment.fd(), Map.of(0, a.path()), Set.of(0), Long.MAX_VALUE / 2);
    assertTrue(missing.isEmpty());
    new OwnedFd(b.take(0).orElseThrow().fd()).close();
    new OwnedFd(a.take(1).orElseThrow().fd()).close();
  }

  /** Rank 1 has its mailbox and gives nothing. */
  @Test
  void aFailureEndsASwap() {
    b.expect(0);
    int[] looks = new int[1];
    Runnable check =
        () -> {
          if (++looks[0] == 3) {
            throw new InvalidUsageException(ErrorId.ABORTED, "rank 1 has failed", "ask it why");
          }
        };
    InvalidUsageException e =
        assertThrows(
            InvalidUsageException.class,
            () ->
                a.swap(0, segment.fd(), Map.of(1, b.path()), Set.of(1), Long.MAX_VALUE / 2, check));
    assertEquals("rank 1 has failed", e.problem());
    new OwnedFd(b.take(0).orElseThrow().fd()).close();
  }

  @Test
  void othersHearThatOneHasClosedAndSeeItsMailbox() {
    assertTrue(a.isOpen(b.path()));
    assertTrue(a.tellClosed(b.path(), 3));
    assertEquals(Set.of(3), b.closed());
    b.close();
    assertFalse(a.isOpen(b.path()));
    assertTrue(a.tellClosed(b.path(), 3), "one that has gone needs not be told");
    assertFalse(Files.exists(Path.of(b.path())));
    assertThrows(SystemErrorException.class, () -> a.give(b.path(), 0, segment.fd()));
  }

  @Test
  void aPathThatIsNoneIsRefused() {
    assertThrows(RemoteException.class, () -> a.give("/x\0y", 0, segment.fd()));
  }
}
