package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;

/** A warmed-up operation allocates nothing, from the call to the kernel's end. */
@Timeout(120)
class AllocationTest {
  private static final int OPERATIONS = 2000;

  /** What a measurement itself may allocate; one object an operation would be 16 times that. */
  private static final long NOISE_BYTES = OPERATIONS;

  @Test
  void allReduceAllocatesNothing() throws Exception {
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(4096, i -> 1)) {
              long least = Long.MAX_VALUE;
              for (int round = 0; round < 10; round++) {
                long before = threads.getThreadAllocatedBytes(Thread.currentThread().getId());
                for (int i = 0; i < OPERATIONS; i++) {
                  comm.allReduce(data, data, 4096, DataType.FLOAT32, RedOp.MAX, stream);
                  comm.allReduce(data, data, 2, DataType.FLOAT32, RedOp.MAX, stream);
                  stream.synchronize();
                }
                long after = threads.getThreadAllocatedBytes(Thread.currentThread().getId());
                least = Math.min(least, after - before);
              }
              assertTrue(least < NOISE_BYTES, least + " bytes by " + OPERATIONS + " operations");
            }
          });
    }
  }
}
