package org.nccl4j.device.shm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;

class ReservedRangeTest {
  /** Memory behind the end of a file must not be touched. */
  @Test
  void aSegmentThatIsSmallerThanItsOwnerSaysIsNotMapped() {
    try (ReservedRange range = ReservedRange.of(1 << 20);
        SharedSegment segment = SharedSegment.create(4096)) {
      SystemErrorException e =
          assertThrows(SystemErrorException.class, () -> range.map(0, segment.fd(), 8192));
      assertEquals(ErrorId.SHARED_MEMORY, e.id());
      range.map(0, segment.fd(), 4096);
    }
  }

  private static final long PART = 64 << 10;

  /** A failed mapping may leave a hole, where another thread's mapping could come to lie. */
  @Test
  void aHoleIsReservedAgain() {
    boolean isReserved = false;
    for (int range = 0; range < 5 && !isReserved; range++) { // another thread may take a hole
      isReserved = isHoleReservedAgain();
    }
    assertTrue(isReserved);
  }

  private static boolean isHoleReservedAgain() {
    try (ReservedRange range = ReservedRange.of(1 << 20);
        SharedSegment segment = SharedSegment.create(4096)) {
      Libc.unmap(range.address() + PART, PART);
      assertFalse(ReservedRange.isReserved(range.address() + PART, PART));
      range.refill(PART, PART);
      boolean isReserved = ReservedRange.isReserved(range.address(), 1 << 20);
      if (isReserved) {
        range.map(PART, segment.fd(), 4096);
      }
      return isReserved;
    }
  }

  @Test
  void aReservationThatAFailureLeftAloneCanBeMapped() {
    try (ReservedRange range = ReservedRange.of(1 << 20);
        SharedSegment segment = SharedSegment.create(4096)) {
      range.refill(PART, PART);
      range.map(PART, segment.fd(), 4096);
    }
  }

  @Test
  void whatOthersMappedInAHoleIsLeftAlone() throws IOException {
    try (SharedSegment others = SharedSegment.create(PART)) {
      ReservedRange range = ReservedRange.of(1 << 20);
      long at = range.address() + PART;
      Libc.mapSharedAt(at, others.fd(), PART);
      range.refill(PART, PART);
      assertThrows(SystemErrorException.class, () -> range.map(PART, others.fd(), PART));
      range.close();
      assertTrue(
          Files.readAllLines(Path.of("/proc/self/maps")).stream()
              .anyMatch(line -> line.startsWith("%x-%x rw-s".formatted(at, at + PART))));
      assertFalse(ReservedRange.isReserved(range.address(), PART));
      Libc.unmap(at, PART);
    }
  }
}
