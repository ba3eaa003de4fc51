package org.nccl4j.device.os;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.HashSet;
import java.util.HexFormat;
import java.util.Set;
import org.junit.jupiter.api.Test;

class KernelRandomTest {
  private static final int DRAWS = 1000;

  @Test
  void givesAsManyBytesAsRequested() {
    for (int count : new int[] {0, 1, 16, 100_000}) {
      assertEquals(count, KernelRandom.bytes(count).length);
    }
  }

  @Test
  void repeatsNothing() {
    Set<String> bytes = new HashSet<>();
    Set<Long> numbers = new HashSet<>();
    for (int draw = 0; draw < DRAWS; draw++) {
      bytes.add(HexFormat.of().formatHex(KernelRandom.bytes(16)));
      numbers.add(KernelRandom.number());
    }
    assertEquals(DRAWS, bytes.size());
    assertEquals(DRAWS, numbers.size());
  }
}
