package org.nccl4j.it.abi;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.operation.Operation;

/** The cost of a C program's call on the Java side. */
class WarmLaunchTest {
  private static final int CALLS = 20_000;
  private static final int BUFFERS = 100;
  private static final int MOST_ROUNDS = 10;

  private final ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();

  /** Buffers are wrapped once, and found by address and size from then on. */
  @Test
  void allocatesNothing() {
    try (Communicator alone = Communicator.initAll(List.of(Devices.host())).get(0);
        DeviceMemory memory = Devices.host().memAlloc(1 << 16)) {
      RankHandle handle = RankHandle.warm(alone);
      calls(handle, memory.address());
      // Compilers replace code now and then, for which the thread allocates a little.
      long bytes = Long.MAX_VALUE;
      for (int round = 0; round < MOST_ROUNDS && bytes >= CALLS; round++) {
        long before = threads.getCurrentThreadAllocatedBytes();
        calls(handle, memory.address());
        bytes = threads.getCurrentThreadAllocatedBytes() - before;
      }
      assertTrue(bytes < CALLS, bytes + " bytes in " + CALLS + " calls");
      RankHandle.ALL.remove(handle.handle());
    }
  }

  private static void calls(RankHandle handle, long address) {
    long shape = CallShape.of(Operation.ALL_REDUCE, DataType.INT32, RedOp.SUM, 0);
    for (int call = 0; call < CALLS; call++) {
      long at = address + 64L * (call % BUFFERS);
      assertEquals(0, Entry.launch(handle.handle(), shape, at, at, 1 + call % 2, 0));
    }
  }
}
