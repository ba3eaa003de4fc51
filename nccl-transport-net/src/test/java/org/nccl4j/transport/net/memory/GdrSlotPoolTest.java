package org.nccl4j.transport.net.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.transport.net.NetChannelCount;

/** Ends lie side by side and none touches another, whatever GPUs' slots are like. */
class GdrSlotPoolTest {
  private static final int CHANNELS = ConnectionLayout.CHANNELS;

  @Test
  void everyEndHasItsWordsBeforeTheBoundaryAndItsSlotsToItself() {
    for (int part = 512; part <= 64 << 10; part *= 2) {
      for (int lines = 512; lines <= 8 << 10; lines *= 2) {
        for (int channels = 1; channels <= NetChannelCount.MOST; channels++) {
          check(
              new ConnectionLayout(CHANNELS * lines, CHANNELS * lines, CHANNELS * part),
              (long) channels * part);
        }
      }
    }
  }

  private static void check(ConnectionLayout layout, long used) {
    long step = GdrSlotPool.step(used);
    int places = GdrSlotPool.places(layout, used);
    String which = layout + " with " + used + " bytes used";
    assertTrue(places >= 1, which);
    assertEquals(0, step % 4096, which);
    long lastWords = (places - 1) * step - layout.simple(0) + 2 * ConnectionLayout.CREDIT_BYTES;
    assertTrue(lastWords <= 0, which);
    assertTrue(step >= 2 * ConnectionLayout.CREDIT_BYTES && step >= used, which);
    assertTrue((places - 1) * step + used <= layout.simpleSlotBytes(), which);
  }

  @Test
  void sixteenRanksOfOtherHostsShareABank() {
    ConnectionLayout eightGpus = new ConnectionLayout(128 << 10, 127 << 10, 1 << 20);
    assertEquals(32, GdrSlotPool.places(eightGpus, 2 * (16 << 10)));
  }
}
