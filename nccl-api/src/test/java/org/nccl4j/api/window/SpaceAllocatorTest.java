package org.nccl4j.api.window;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.InternalErrorException;

class SpaceAllocatorTest {
  private static final int CELLS = 1000;

  private record Part(int offset, int bytes) {}

  /** Every cell of the range, one by one. */
  private static int lowestFit(BitSet used, int bytes, int alignment) {
    for (int at = 0; at + bytes <= CELLS; at += alignment) {
      int next = used.nextSetBit(at);
      if (next < 0 || next >= at + bytes) {
        return at;
      }
    }
    return -1;
  }

  /** 10,000 random parts taken and given back, against a map of all cells. */
  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3})
  void agreesWithAMapOfAllCells(long seed) {
    Random random = new Random(seed);
    SpaceAllocator space = new SpaceAllocator(CELLS);
    BitSet used = new BitSet();
    List<Part> parts = new ArrayList<>();
    int refused = 0;
    for (int step = 0; step < 10_000; step++) {
      if (!parts.isEmpty() && random.nextInt(100) < 48) {
        Part part = parts.remove(random.nextInt(parts.size()));
        space.free(part.offset);
        used.clear(part.offset, part.offset + part.bytes);
      } else {
        int bytes = 1 + random.nextInt(random.nextInt(5) == 0 ? 300 : 20);
        int alignment = 1 << random.nextInt(5);
        int expected = lowestFit(used, bytes, alignment);
        assertEquals(expected, space.allocate(bytes, alignment), "seed " + seed + " step " + step);
        if (expected < 0) {
          refused++;
        } else {
          used.set(expected, expected + bytes);
          parts.add(new Part(expected, bytes));
        }
      }
      assertEquals(used.cardinality(), space.usedBytes());
    }
    assertTrue(refused > 100, "the range was never full");
    parts.forEach(part -> space.free(part.offset));
    assertEquals(0, space.usedBytes());
    assertEquals(0, space.allocate(CELLS, 1), "all of it, in one part");
  }

  @Test
  void whatIsNotInUseCannotBeGivenBack() {
    SpaceAllocator space = new SpaceAllocator(CELLS);
    long offset = space.allocate(10, 1);
    assertThrows(InternalErrorException.class, () -> space.free(offset + 1));
    space.free(offset);
    assertThrows(InternalErrorException.class, () -> space.free(offset));
    assertThrows(InternalErrorException.class, () -> space.allocate(0, 1));
    assertThrows(InternalErrorException.class, () -> space.allocate(1, 3));
  }
}
