package org.nccl4j.api.observe;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class LongWaitTest {
  private final LongWait wait = new LongWait();

  @Test
  void eachOperationIsToldOfOnce() {
    assertFalse(wait.isDue(3, true, 1_000));
    assertFalse(wait.isDue(3, true, 60_999));
    assertTrue(wait.isDue(3, true, 61_000));
    assertFalse(wait.isDue(3, true, 500_000));
    assertFalse(wait.isDue(4, true, 500_000), "the next one has just begun");
    assertTrue(wait.isDue(4, true, 560_000));
  }

  /** A GPU's kernel is not seen waiting at every look. */
  @Test
  void aLookThatSeesNoWaitDoesNotEndIt() {
    assertFalse(wait.isDue(0, true, 0));
    assertFalse(wait.isDue(0, false, 30_000));
    assertTrue(wait.isDue(0, true, 60_000));
  }

  @Test
  void timeWithoutAnOperationDoesNotCount() {
    assertFalse(wait.isDue(0, false, 0));
    assertFalse(wait.isDue(0, true, 100_000));
    assertTrue(wait.isDue(0, true, 160_000));
    assertFalse(wait.isDue(1, false, 160_001));
    assertFalse(wait.isDue(1, true, 300_000));
  }
}
