package org.nccl4j.it.api;

import java.util.Map;
import java.util.TreeMap;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;

/** A rank of {@link CallsDifferTest} in a process of its own; prints the error of its call. */
public final class DifferingRank {
  private DifferingRank() {}

  /** Arguments: the rank, the unique id, the pair of calls, and settings as name=value. */
  public static void main(String[] arguments) {
    Map<String, String> way = new TreeMap<>();
    for (int i = 3; i < arguments.length; i++) {
      String[] setting = arguments[i].split("=", 2);
      way.put(setting[0], setting[1]);
    }
    int rank = Integer.parseInt(arguments[0]);
    CallsDifferTest.Pair pair =
        CallsDifferTest.pairs()
            .getOrDefault(arguments[2], CallsDifferTest.oneSided().get(arguments[2]));
    try (Communicator comm =
            Communicator.initRank(
                2,
                UniqueId.parse(arguments[1]),
                rank,
                Devices.host(),
                CallsDifferTest.config(way));
        DeviceStream stream = comm.device().createStream()) {
      NcclException error =
          CallsDifferTest.error(comm, stream, rank == 0 ? pair.first() : pair.others());
      System.out.println(error.id() + " " + error.getMessage().replace('\n', ' '));
    }
  }
}
