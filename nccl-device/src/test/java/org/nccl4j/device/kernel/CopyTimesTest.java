package org.nccl4j.device.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.CopyTimes;

class CopyTimesTest {
  private static final int NEVER = Integer.MAX_VALUE;

  private static int least(List<Long> single, List<Long> twice) {
    return new CopyTimes(single, twice).leastBytes();
  }

  @Test
  void theLeastSizeIsTheOneFromWhichOnASingleCopyIsFaster() {
    List<Long> twice = List.of(100L, 200L, 400L, 800L);
    assertEquals(32 << 10, least(List.of(80L, 150L, 300L, 600L), twice));
    assertEquals(128 << 10, least(List.of(80L, 250L, 300L, 600L), twice), "a slow size below");
    assertEquals(256 << 10, least(List.of(300L, 350L, 490L, 950L), twice), "nearly as fast");
    assertEquals(NEVER, least(List.of(10L, 20L, 40L, 970L), twice), "slower at the largest");
    assertEquals(NEVER, least(List.of(), List.of()), "not allowed");
  }
}
