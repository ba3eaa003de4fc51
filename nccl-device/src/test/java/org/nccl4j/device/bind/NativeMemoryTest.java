package org.nccl4j.device.bind;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import java.nio.ByteBuffer;
import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class NativeMemoryTest {
  private static final int ROOM = 100_000;

  /** Ranges may overlap, in both directions. */
  @ParameterizedTest
  @ValueSource(longs = {1, 100, NativeMemory.MANY_BYTES - 1, NativeMemory.MANY_BYTES, 70_001})
  void copiesAnyNumberOfBytes(long bytes) {
    for (int[] places : new int[][] {{3, 20_000}, {20_000, 3}, {5, 6}, {6, 5}}) {
      byte[] expected = new byte[ROOM];
      new Random(bytes).nextBytes(expected);
      ByteBuffer memory = ByteBuffer.allocateDirect(ROOM).put(0, expected);
      long address = NativeMemory.addressOf(memory);
      NativeMemory.copy(address + places[0], address + places[1], bytes);
      System.arraycopy(expected, places[0], expected, places[1], (int) bytes);
      byte[] got = new byte[ROOM];
      memory.get(0, got);
      assertArrayEquals(expected, got);
    }
  }
}
