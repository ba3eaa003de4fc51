package org.nccl4j.it.net;

import java.time.Duration;
import java.util.List;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/**
 * A program of four ranks that say they are on four hosts: all-reduces in a ring until it is ended.
 * The link from rank 1 to rank 2 is throttled.
 */
final class ThrottledRanks {
  static final int RANKS = 4;

  /** Elements of an all-reduce. */
  static final int COUNT = 1 << 18;

  private ThrottledRanks() {}

  /** Argument: the unique id. */
  public static void main(String[] arguments) throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withName("throttled")
            .withOperationTimeout(Duration.ofMinutes(5))
            .withInitTimeout(Duration.ofMinutes(5))
            .withTransports(List.of("NET"))
            .with("NCCL_NET", ThrottledNet.NAME)
            .with("NCCL_SOCKET_IFNAME", "lo")
            .with("NCCL_ALGO", "Ring")
            .with("NCCL_PROTO", "Simple");
    for (int rank = 0; rank < RANKS; rank++) {
      int own = rank;
      new Thread(() -> work(arguments[0], own, config), "rank " + rank).start();
    }
    while (System.in.read() >= 0) {
      // Nothing is said: the end of the input ends the program.
    }
    Runtime.getRuntime().halt(0);
  }

  private static void work(String id, int rank, CommunicatorConfig config) {
    try (Communicator comm =
            Communicator.initRank(
                RANKS,
                UniqueId.parse(id),
                rank,
                Devices.host(),
                config.with("NCCL_HOSTID", "host" + rank));
        DeviceStream stream = Devices.host().createStream();
        DeviceMemory data = Devices.host().allocate(4L * COUNT)) {
      while (true) {
        comm.allReduce(data, data, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
        stream.synchronize();
      }
    } catch (RuntimeException e) {
      e.printStackTrace();
      Runtime.getRuntime().halt(1);
    }
  }
}
