package org.nccl4j.it.api;

import java.time.Duration;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.ExpertConfig;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceStream;

/** A rank of {@link ExpertsTest} in a process of its own. */
public final class ExpertRank {
  static final int RANKS = 2;
  static final CommunicatorConfig CONFIG =
      CommunicatorConfig.defaults()
          .withOperationDeadline(Duration.ofSeconds(60))
          .with("NCCL_SOCKET_IFNAME", "lo");
  private static final int ROUNDS = 6;

  private ExpertRank() {}

  /** Arguments: the rank, the unique id and the seed. */
  public static void main(String[] arguments) {
    try (Communicator comm =
            Communicator.initRank(
                RANKS,
                UniqueId.parse(arguments[1]),
                Integer.parseInt(arguments[0]),
                Devices.host(),
                CONFIG);
        DeviceStream stream = comm.device().createStream()) {
      ExpertConfig sizes = new ExpertConfig(9, 128, 3, 6, DataType.BFLOAT16, true);
      Experts.run(comm, stream, sizes, ROUNDS, Long.parseLong(arguments[2]));
    }
  }
}
