package org.nccl4j.it.api;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** A warmed-up operation allocates nothing, from the call to the kernel's end. */
@Timeout(120)
class AllocationTest {
  private static final int OPERATIONS = 2000;

  @Test
  void allReduceAllocatesNothing() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      Allocation allocation = new Allocation(2, OPERATIONS, List.of());
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(4096, i -> 1)) {
              allocation.measure(() -> operations(comm, stream, data));
            }
          });
      allocation.assertNothing();
    }
  }

  private static void operations(Communicator comm, DeviceStream stream, DeviceMemory data) {
    for (int i = 0; i < OPERATIONS; i++) {
      comm.allReduce(data, data, 4096, DataType.FLOAT32, RedOp.MAX, stream);
      comm.allReduce(data, data, 2, DataType.FLOAT32, RedOp.MAX, stream);
      stream.synchronize();
    }
  }
}
