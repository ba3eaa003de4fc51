package org.nccl4j.it.api;

import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** Rank 1 of 2, in a process of its own, which closes early, for {@link EarlyCloseTest}. */
final class ClosingRank {
  private ClosingRank() {}

  /** Argument: id. Closes after two collectives, and stays until its input ends. */
  public static void main(String[] arguments) throws Exception {
    try (DeviceStream stream = Devices.host().createStream();
        DeviceMemory data = Ranks.floats(16, i -> 1)) {
      try (Communicator communicator =
          Communicator.initRank(
              2, UniqueId.parse(arguments[0]), 1, Devices.host(), EarlyCloseTest.PATIENT)) {
        for (int n = 0; n < 2; n++) {
          communicator.allReduce(data, data, 16, DataType.FLOAT32, RedOp.SUM, stream);
        }
        stream.synchronize();
      }
      System.in.read();
    }
  }
}
