package org.nccl4j.device.host.kernel.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Random;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.memory.HostMemory;

class SlotFillsTest {
  private static final int SLOT = 40_000;

  private final SlotFills fills = new SlotFills();

  private void measure(long[] plain, long[] streamed) {
    for (int s = 0; s < SlotFills.SAMPLES; s++) {
      fills.add(2 * s, plain[s]);
      fills.add(2 * s + 1, streamed[s]);
    }
  }

  @Test
  void theMedianOfEachWayDecidesAndMayChange() {
    long[] slow = {9, 100, 120, 9000, 110, 110, 110};
    measure(slow, new long[] {40, 50, 60, 9000, 9000, 60, 10});
    assertTrue(fills.streams());
    measure(slow, new long[] {100, 1, 1, 1, 90, 90, 90});
    assertFalse(fills.streams(), "nearly as slow");
  }

  /** Before, in and after a measurement, and of all sizes. */
  @Test
  void eachCopyIsWhole() {
    long seed = Long.getLong("nccl4j.seed", 1);
    Random random = new Random(seed);
    HostMemory source = HostMemory.of(HostDevice.instance().allocate(SLOT));
    HostMemory slots = HostMemory.of(HostDevice.instance().allocate(SLOT));
    for (int turn = 0; turn < SlotFills.PERIOD + SlotFills.FIRST + 100; turn++) {
      int bytes = 1 + random.nextInt(SLOT - 100);
      int from = random.nextInt(100);
      int to = random.nextInt(100);
      int probe = random.nextInt(bytes);
      byte value = (byte) random.nextInt();
      for (int at : new int[] {0, probe, bytes - 1}) {
        source.window(from + at).put(source.index(from + at), value);
        slots.window(to + at).put(slots.index(to + at), (byte) ~value);
      }
      fills.fill(source, from, slots, to, bytes);
      for (int at : new int[] {0, probe, bytes - 1}) {
        byte got = slots.window(to + at).get(slots.index(to + at));
        assertEquals(value, got, "seed " + seed + ", turn " + turn + ", byte " + at);
      }
    }
    source.close();
    slots.close();
  }
}
