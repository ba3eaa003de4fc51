package org.nccl4j.it.device;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** The choice of GPU tests that run on a machine. */
class GpuConditionTest {
  private static final Set<String> ANY = Set.of("gpu");
  private static final Set<String> TWO = Set.of("gpu", "two-gpus");

  @Test
  void noneRunWithoutGpus() {
    for (Set<String> tags : Set.of(ANY, TWO)) {
      var result = GpuCondition.of(tags, Optional.of("no driver"), 0);
      assertTrue(result.isDisabled());
      assertEquals("no driver", result.getReason().orElseThrow());
    }
  }

  @Test
  void thoseOfTwoAreSkippedOnOneAndSayWhy() {
    assertFalse(GpuCondition.of(ANY, Optional.empty(), 1).isDisabled());
    var result = GpuCondition.of(TWO, Optional.empty(), 1);
    assertTrue(result.isDisabled());
    assertTrue(result.getReason().orElseThrow().startsWith("needs two GPUs, of which one is seen"));
  }

  @Test
  void allRunOnTwo() {
    assertFalse(GpuCondition.of(ANY, Optional.empty(), 2).isDisabled());
    assertFalse(GpuCondition.of(TWO, Optional.empty(), 2).isDisabled());
  }
}
