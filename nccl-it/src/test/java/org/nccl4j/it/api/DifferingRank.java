package org.nccl4j.it.api;

import java.util.Map;
import java.util.TreeMap;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;

/** Rank 1 of {@link CallsDifferTest} in a process of its own; says what its call ends in. */
public final class DifferingRank {
  private DifferingRank() {}

  /** Arguments: the unique id, the pair of calls, and settings as name=value. */
  public static void main(String[] arguments) {
    Map<String, String> way = new TreeMap<>();
    for (int i = 2; i < arguments.length; i++) {
      String[] setting = arguments[i].split("=", 2);
      way.put(setting[0], setting[1]);
    }
    CallsDifferTest.Pair pair = CallsDifferTest.pairs().get(arguments[1]);
    try (Communicator comm =
            Communicator.initRank(
                2, UniqueId.parse(arguments[0]), 1, Devices.host(), CallsDifferTest.config(way));
        DeviceStream stream = comm.device().createStream()) {
      NcclException error = CallsDifferTest.error(comm, stream, pair.others());
      System.out.println(error.id() + " " + error.getMessage().replace('\n', ' '));
    }
  }
}
