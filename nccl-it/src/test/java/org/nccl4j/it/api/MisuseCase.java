package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/**
 * A wrong call on a rank of two.
 *
 * @param message what is in its message
 */
record MisuseCase(Class<? extends NcclException> type, String message, Call call) {
  /** With a buffer of 64 bytes. */
  interface Call {
    void run(Communicator comm, DeviceMemory ok, DeviceStream stream);
  }

  /** It has its error and its message, and leaves the communicator usable. */
  void assertNamed() throws Exception {
    try (Ranks ranks = new Ranks(2);
        DeviceMemory ok = Devices.host().allocate(64)) {
      Communicator comm = ranks.communicators.get(0);
      NcclException e = assertThrows(type, () -> call.run(comm, ok, ranks.streams.get(0)));
      assertTrue(e.getMessage().contains(message), e.getMessage());
      assertTrue(e.getMessage().contains("Remedy: "), e.getMessage());
      assertWorks(ranks);
    }
  }

  static void assertWorks(Ranks ranks) throws Exception {
    ranks.run(
        (comm, stream) -> {
          try (DeviceMemory data = Ranks.floats(16, i -> 1)) {
            comm.allReduce(data, data, 16, DataType.FLOAT32, RedOp.SUM, stream);
            stream.synchronize();
            assertEquals(2f, Ranks.floats(data)[15]);
          }
        });
  }
}
