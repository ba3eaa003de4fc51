package org.nccl4j.api.window;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.Predicate;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.symmetric.WindowView;

class WindowTableTest {
  /** Random windows, overlapping ones too, against looking at each. */
  @ParameterizedTest
  @ValueSource(longs = {11, 12})
  void findsAWindowWhereThereIsOne(long seed) {
    Random random = new Random(seed);
    DeviceMemory memory = HostDevice.instance().allocate(600);
    long low = memory.address();
    WindowTable table = new WindowTable();
    List<RegisteredWindow> all = new ArrayList<>();
    for (int step = 0; step < 2000; step++) {
      if (all.size() > 40 || (!all.isEmpty() && random.nextInt(3) == 0)) {
        RegisteredWindow gone = all.remove(random.nextInt(all.size()));
        table.remove(gone);
        assertTrue(!table.has(gone));
      } else {
        long begin = low + random.nextInt(500);
        DeviceMemory part = memory.slice(begin - low, 1 + random.nextInt(100));
        WindowView view = new WindowView(step, begin, List.of(part));
        RegisteredWindow window = new RegisteredWindow(view, null, 0, part, random.nextBoolean());
        all.add(window);
        table.add(window);
      }
      long address = low - 10 + random.nextInt(620);
      long bytes = random.nextInt(60);
      for (boolean forCollectives : new boolean[] {false, true}) {
        Predicate<RegisteredWindow> fits =
            w -> holds(w, address, bytes) && (w.isForCollectives() || !forCollectives);
        RegisteredWindow found = table.find(address, bytes, forCollectives);
        if (all.stream().noneMatch(fits)) {
          assertNull(found, "seed " + seed + " step " + step);
        } else {
          assertTrue(fits.test(found), "seed " + seed + " step " + step);
        }
      }
      assertEquals(all.isEmpty(), table.isEmpty());
    }
  }

  private static boolean holds(RegisteredWindow window, long address, long bytes) {
    long begin = window.view().address();
    return address >= begin && address + bytes <= begin + window.view().size();
  }
}
