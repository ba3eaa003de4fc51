package org.nccl4j.device.host.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.bind.NativeFunction;
import org.nccl4j.device.bind.NativeNames;
import org.nccl4j.device.os.ThisProcess;

class ProcessMemoryTest {
  private final ByteBuffer from = ByteBuffer.allocateDirect(64).put(7, (byte) 3);
  private final ByteBuffer to = ByteBuffer.allocateDirect(64);

  private int read(ProcessMemory memory) {
    return memory.read(BufferViews.addressOf(from), BufferViews.addressOf(to), 64);
  }

  @Test
  void readsOrTellsWhy() {
    assertEquals(0, read(new ProcessMemory(ThisProcess.pid())));
    assertEquals(3, to.get(7));
    assertEquals(ProcessMemory.ESRCH, read(new ProcessMemory(Integer.MAX_VALUE)));
  }

  /** It leaves errno as it was, which may be 0. The function here does nothing and returns 0. */
  @Test
  void aCallThatReadsNothingIsAnError() {
    long nothing = NativeFunction.find(NativeNames.LIBC, "sched_yield");
    assertEquals(ProcessMemory.EFAULT, read(new ProcessMemory(ThisProcess.pid(), nothing)));
  }
}
