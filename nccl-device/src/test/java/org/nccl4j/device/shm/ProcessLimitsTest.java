package org.nccl4j.device.shm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.OptionalLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class ProcessLimitsTest {
  private static Stream<String> lines() {
    return Stream.of(
        "Limit                     Soft Limit           Hard Limit           Units     ",
        "Max open files            1024                 524288               files     ",
        "Max locked memory         unlimited            unlimited            bytes     ");
  }

  @Test
  void theSoftLimitIsTheFirstNumber() {
    assertEquals(OptionalLong.of(1024), ProcessLimits.soft(ProcessLimits.OPEN_FILES, lines()));
  }

  @Test
  void unlimitedAndUnknownAreNoLimits() {
    assertEquals(OptionalLong.empty(), ProcessLimits.soft(ProcessLimits.LOCKED_MEMORY, lines()));
    assertEquals(OptionalLong.empty(), ProcessLimits.soft("Max nothing", lines()));
  }

  @Test
  void thisProcessMayOpenFiles() {
    assertTrue(ProcessLimits.soft(ProcessLimits.OPEN_FILES).orElse(Long.MAX_VALUE) > 2);
  }
}
