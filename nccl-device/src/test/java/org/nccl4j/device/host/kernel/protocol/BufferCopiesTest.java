package org.nccl4j.device.host.kernel.protocol;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.support.CopyWays;
import org.nccl4j.device.support.CopyWays.Kind;

/** Copies between buffers, among them parts of one buffer that overlap. */
@Timeout(600)
class BufferCopiesTest {
  private static final int SIZE = 160 << 10;

  private final CopyWays ways = new CopyWays();
  private final BufferCopies copies = new BufferCopies(ways);
  private final Random random = new Random(Long.getLong("nccl4j.seed", 1));

  private byte[] bytes(HostMemory memory) {
    byte[] all = new byte[SIZE];
    memory.window(0).get(memory.index(0), all);
    return all;
  }

  /** Copies within a memory, as arrays do. */
  private void copy(HostMemory memory, int from, int to, int count, boolean leaves) {
    byte[] before = new byte[SIZE];
    random.nextBytes(before);
    ByteBuffer window = memory.window(0);
    window.put(memory.index(0), before);
    copies.copyAll(memory, from, memory, to, count, leaves);
    System.arraycopy(before, from, before, to, count);
    assertArrayEquals(before, bytes(memory), from + " to " + to + ", " + count);
  }

  @Test
  void copiesComeWholeByAllWays() {
    try (HostMemory memory = HostMemory.of(HostDevice.instance().allocate(SIZE))) {
      int each = MeasuredCopies.FIRST + 3 * MeasuredCopies.SPACING * MeasuredCopies.SAMPLES;
      for (int turn = 0; turn < 2 * each; turn++) {
        for (int count : new int[] {0, 100, 2048, 8200, 70_001}) {
          copy(memory, turn, SIZE / 2 + 3 * turn, count, turn % 2 == 0);
        }
      }
      for (int sizes = 0; sizes < 3; sizes++) {
        int bytes = CopyWays.SIZES.get(sizes);
        assertEquals(each, copies.measured(/* leaves= */ true).counted(bytes));
        assertEquals(each, copies.measured(/* leaves= */ false).counted(bytes));
        assertTrue(ways.way(Kind.OWN, sizes).isPresent());
        assertTrue(ways.way(Kind.OWN_LEAVING, sizes).isPresent());
      }
    }
  }

  /** Large copies may be faster by another way than those of slots' sizes, and so may peers'. */
  @Test
  void copiesThatDifferAreMeasuredApart() {
    try (HostMemory memory = HostMemory.of(HostDevice.instance().allocate(1 << 20))) {
      copies.copyAll(memory, 0, memory, 512 << 10, 256 << 10, /* leaves= */ false);
      assertEquals(1, copies.measured(false).counted(256 << 10));
      assertEquals(1, copies.measured(false).counted(512 << 10));
      assertEquals(0, copies.measured(false).counted(128 << 10));
      assertEquals(0, copies.measured(true).counted(256 << 10));
      assertEquals(0, copies.ofPeers().measured(false).counted(256 << 10));
      copies.ofPeers().copyAll(memory, 0, memory, 512 << 10, 256 << 10, /* leaves= */ true);
      assertEquals(1, copies.ofPeers().measured(true).counted(256 << 10));
      assertEquals(0, copies.measured(true).counted(256 << 10));
      copies.copySum(memory, 0, memory, 512 << 10, 16 << 10);
      assertEquals(0, copies.measured(true).counted(16 << 10));
    }
  }

  @Test
  void partsThatOverlapComeWhole() {
    try (HostMemory memory = HostMemory.of(HostDevice.instance().allocate(SIZE))) {
      for (int turn = 0; turn < MeasuredCopies.FIRST + 3 * MeasuredCopies.SAMPLES; turn++) {
        copy(memory, 0, 64, 40_000, /* leaves= */ true);
        copy(memory, 1000, 8, 40_000, /* leaves= */ true);
        copy(memory, 8, 8, 40_000, /* leaves= */ false);
      }
    }
  }
}
