package org.nccl4j.device.shm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;

class ReservedRangeTest {
  /** What lies behind the end of a file must not be touched. */
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
}
