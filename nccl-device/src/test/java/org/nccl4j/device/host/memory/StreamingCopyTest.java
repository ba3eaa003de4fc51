package org.nccl4j.device.host.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;

class StreamingCopyTest {
  private static final int MOST = 1000;

  @Test
  void aSystemThatLetsNoProcessMakeCodeIsNamed() {
    assumeTrue(StreamingCopy.open().isAvailable());
    StreamingCopy refused =
        StreamingCopy.make(
            () -> {
              throw new SystemErrorException(ErrorId.MEMORY, "mprotect fails: EACCES", "none");
            });
    assertFalse(refused.isAvailable());
    assertTrue(refused.obstacle().contains("no code: mprotect fails: EACCES (let it: SELinux'"));
    assertEquals("", StreamingCopy.open().obstacle());
  }

  /** From and to every place in a cache line; the bytes around the target stay. */
  @Test
  void allBytesAndNoOthersAreCopied() {
    StreamingCopy streaming = StreamingCopy.open();
    assumeTrue(streaming.isAvailable());
    long seed = Long.getLong("nccl4j.seed", 1);
    Random random = new Random(seed);
    ByteBuffer from = ByteBuffer.allocateDirect(MOST + 128);
    ByteBuffer to = ByteBuffer.allocateDirect(MOST + 128);
    for (int turn = 0; turn < 5000; turn++) {
      byte[] bytes = new byte[from.capacity()];
      random.nextBytes(bytes);
      from.put(0, bytes);
      random.nextBytes(bytes);
      to.put(0, bytes);
      int source = random.nextInt(64);
      int target = random.nextInt(64);
      int count = random.nextInt(MOST);
      streaming.copy(HostMemory.addressOf(from) + source, HostMemory.addressOf(to) + target, count);
      for (int at = 0; at < to.capacity(); at++) {
        boolean copied = at >= target && at < target + count;
        byte expected = copied ? from.get(source + at - target) : bytes[at];
        assertEquals(expected, to.get(at), "seed " + seed + ", turn " + turn + ", byte " + at);
      }
    }
  }
}
