package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.connection.ConnectionLayout;

/** Connections of any number of ranks have room for the kernels' steps; others are refused. */
class ConnectionSizesTest {
  @Test
  void everyNumberOfRanksHasSlotsThatKernelsCanUse() {
    for (int ranks = 1; ranks <= 65_535; ranks += 1 + ranks / 64) {
      ConnectionLayout layout = ConnectionSizes.layout(ranks);
      assertDoesNotThrow(() -> ConnectionSizes.check(layout), ranks + " ranks");
    }
  }

  @Test
  void slotsThatAreTooSmallAreRefused() {
    int enough = ConnectionLayout.CHANNELS * 512;
    int little = ConnectionLayout.CHANNELS * 128;
    for (ConnectionLayout layout :
        new ConnectionLayout[] {
          new ConnectionLayout(little, enough, enough),
          new ConnectionLayout(enough, little, enough),
          new ConnectionLayout(enough, enough, little / 2)
        }) {
      InvalidArgumentException e =
          assertThrows(InvalidArgumentException.class, () -> ConnectionSizes.check(layout));
      assertEquals(ErrorId.LAYOUT, e.id());
    }
  }
}
