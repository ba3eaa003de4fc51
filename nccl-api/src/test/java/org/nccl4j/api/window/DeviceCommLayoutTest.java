package org.nccl4j.api.window;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class DeviceCommLayoutTest {
  private static DeviceCommLayout layout(int barriers, int slots, int signals, int team) {
    return new DeviceCommLayout(new DeviceCommRequirements(barriers, slots, signals), team);
  }

  /** The offsets of some layouts. */
  @ParameterizedTest
  @CsvSource({
    "0, 0, 0, 1, 128, 136, 256, 256, 288, 288",
    "1, 0, 0, 2, 256, 288, 384, 512, 576, 576",
    "2, 3, 1, 4, 1024, 1080, 1152, 1408, 1792, 1800",
    "16, 1, 8, 8, 16384, 16776, 16896, 18944, 19200, 19264"
  })
  void partsFollowEachOther(
      int barriers,
      int slots,
      int signalCount,
      int team,
      long epochs,
      long claimed,
      long counters,
      long lines,
      long signals,
      long bytes) {
    DeviceCommLayout layout = layout(barriers, slots, signalCount, team);
    assertEquals(
        List.of(epochs, claimed, counters, lines, signals, bytes),
        List.of(
            layout.epochs(),
            layout.claimed(),
            layout.counters(),
            layout.lines(),
            layout.signals(),
            layout.bytes()));
  }

  /** No two barriers share a cache line, with each other or with another part. */
  @ParameterizedTest
  @CsvSource({"1, 1", "3, 2", "4096, 32"})
  void barriersHaveCacheLinesOfTheirOwn(int barriers, int team) {
    DeviceCommLayout layout = layout(barriers, 4096, 4096, team);
    for (int barrier = 0; barrier < barriers; barrier++) {
      assertEquals(0, layout.flags(barrier) % 128);
      assertEquals(128L * team * (barrier + 1), layout.flags(barrier + 1));
    }
    assertTrue(layout.flags(barriers) <= layout.epochs());
    assertEquals(0, layout.counters() % 128);
    assertEquals(128L * barriers, layout.lines() - layout.counters());
  }
}
