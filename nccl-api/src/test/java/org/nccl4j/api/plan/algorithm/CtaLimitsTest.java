package org.nccl4j.api.plan.algorithm;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

/** The effect of limits of blocks on each kind of plan. */
class CtaLimitsTest {
  private static final int SENDRECV = 2;
  private static final int ALL_TO_ALL_OF_8 = 14;

  @Test
  void nothingIsLimitedWhereNothingIsSet() {
    CtaLimits limits = new CtaLimits(1, 64, 64);
    for (CtaLimits each : new CtaLimits[] {limits, CtaLimits.NONE}) {
      assertEquals(0, each.channels(SENDRECV));
      assertEquals(0, each.channels(ALL_TO_ALL_OF_8));
      assertEquals(0, each.mostOfDevice());
      assertEquals(0, each.limit(0));
    }
  }

  @Test
  void messagesAtATimeShareTheBlocks() {
    CtaLimits limits = new CtaLimits(1, 8, 64);
    assertEquals(4, limits.channels(SENDRECV));
    assertEquals(1, limits.channels(ALL_TO_ALL_OF_8), "none can do without a block");
    assertEquals(2, new CtaLimits(1, 32, 64).channels(ALL_TO_ALL_OF_8));
    assertEquals(8, limits.mostOfDevice());
  }

  @Test
  void channelsOfSendsAreOfEachMessage() {
    CtaLimits limits = new CtaLimits(1, 64, 4);
    assertEquals(4, limits.channels(SENDRECV));
    assertEquals(4, limits.channels(ALL_TO_ALL_OF_8));
    assertEquals(0, limits.mostOfDevice(), "no other operation is meant");
    assertEquals(2, new CtaLimits(1, 4, 3).channels(SENDRECV));
  }

  @Test
  void largeOperationsTakeFewBlocksWhereTheseWereMeasured() {
    CtaLimits limits = new CtaLimits(1, 64, 64);
    assertEquals(16, limits.limit(64, 16, 4 << 20));
    assertEquals(64, limits.limit(64, 16, (4 << 20) - 1), "small ones take the best");
    assertEquals(64, limits.limit(128, 0, 1 << 30), "nothing was measured");
    assertEquals(8, limits.limit(8, 16, 1 << 30), "the best are fewer");
    assertEquals(16, limits.mostOfDevice(16, 1 << 30));
    assertEquals(0, limits.mostOfDevice(0, 1 << 30));
  }

  @Test
  void sparingOperationsOfAllSizesTakeFewBlocks() {
    CtaLimits sparing = new CtaLimits(1, 64, 64, /* sparing= */ true);
    assertEquals(16, sparing.limit(64, 16, 1));
    assertEquals(32, sparing.limit(64, 0, 1));
    assertEquals(1, sparing.limit(1, 0, 1));
    assertEquals(0, sparing.limit(0, 0, 1), "left to the device, which takes at most as many");
    assertEquals(32, sparing.mostOfDevice(0, 1));
  }

  @Test
  void theUsersLimitsComeFirst() {
    assertEquals(4, new CtaLimits(1, 4, 64).limit(64, 16, 1 << 30));
    assertEquals(4, new CtaLimits(1, 4, 64).mostOfDevice(16, 1 << 30));
    assertEquals(48, new CtaLimits(48, 64, 64).limit(64, 16, 1 << 30));
    assertEquals(48, new CtaLimits(48, 64, 64).mostOfDevice(16, 1 << 30));
  }
}
