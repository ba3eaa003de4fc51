package org.nccl4j.device.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

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

  private static CopyTimes times(long single, long twice) {
    return new CopyTimes(List.of(single, 2 * single), List.of(twice, 2 * twice));
  }

  @Test
  void theLeastOfTwoMeasurementsHasTheLesserTimeOfEachSize() {
    assertEquals(times(80, 100), times(80, 500).least(times(640, 100)));
    assertEquals(
        new CopyTimes(List.of(1L, 2L), List.of(3L, 4L)),
        new CopyTimes(List.of(1L, 9L), List.of(9L, 4L))
            .least(new CopyTimes(List.of(9L, 2L), List.of(3L, 9L))));
  }

  @Test
  void measurementsAgreeWithinAFifth() {
    assertTrue(times(100, 1000).agreesWith(times(120, 850)));
    assertTrue(times(120, 850).agreesWith(times(100, 1000)));
    assertFalse(times(100, 1000).agreesWith(times(130, 1000)), "slower");
    assertFalse(times(100, 1000).agreesWith(times(100, 700)), "faster");
  }
}
