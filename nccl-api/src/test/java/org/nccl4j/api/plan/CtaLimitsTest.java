package org.nccl4j.api.plan;

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
}
