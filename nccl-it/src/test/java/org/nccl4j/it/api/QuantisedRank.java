package org.nccl4j.it.api;

import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DeviceStream;

/** A rank of {@link QuantisedSumsTest} in a process of its own. */
public final class QuantisedRank {
  private QuantisedRank() {}

  /** Arguments: the rank, the unique id and the seed. */
  public static void main(String[] arguments) {
    try (Communicator comm =
            Communicator.initRank(
                ExpertRank.RANKS,
                UniqueId.parse(arguments[1]),
                Integer.parseInt(arguments[0]),
                Devices.host(),
                ExpertRank.CONFIG);
        DeviceStream stream = comm.device().createStream()) {
      QuantisedSumsTest.checkAll(comm, stream, Long.parseLong(arguments[2]));
    }
  }
}
