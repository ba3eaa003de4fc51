package org.nccl4j.device.host.kernel.protocol;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import java.nio.ByteBuffer;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.memory.HostMemory;

/** Copies between buffers, among them parts of one buffer that overlap. */
@Timeout(600)
class BufferCopiesTest {
  private static final int SIZE = 160 << 10;

  private final BufferCopies copies = new BufferCopies();
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
      for (int turn = 0; turn < MeasuredCopies.FIRST + 3 * MeasuredCopies.SAMPLES; turn++) {
        for (int count : new int[] {0, 100, 2048, 8200, 70_001}) {
          copy(memory, turn, SIZE / 2 + 3 * turn, count, turn % 2 == 0);
        }
      }
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
