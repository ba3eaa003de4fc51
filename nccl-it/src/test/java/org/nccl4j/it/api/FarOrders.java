package org.nccl4j.it.api;

import java.time.Duration;
import java.util.List;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/**
 * A rank of two communicators, in a process whose recorders the other rank's process does not read.
 * The two ranks use the communicators in different order.
 */
final class FarOrders {
  private FarOrders() {}

  /** Arguments: rank, and the ids of both. Says what ends it. */
  public static void main(String[] arguments) throws Exception {
    int rank = Integer.parseInt(arguments[0]);
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .with("NCCL_CHECK_MODE", "DEBUG_GLOBAL")
            .with("NCCL_SOCKET_IFNAME", "lo")
            .with("NCCL_HOSTID", "host " + rank)
            .with("NCCL_P2P_DISABLE", "1")
            .withOperationTimeout(Duration.ofSeconds(60));
    try (Communicator weights = join("weights", arguments[1], rank, config);
        Communicator gradients = join("gradients", arguments[2], rank, config);
        DeviceMemory data = Ranks.floats(16, i -> 1);
        DeviceStream stream = Devices.host().createStream()) {
      weights.allReduce(data, data, 16, DataType.FLOAT32, RedOp.MAX, stream);
      gradients.allReduce(data, data, 16, DataType.FLOAT32, RedOp.MAX, stream);
      stream.synchronize();
      System.out.println("in one order it works");
      List<Communicator> order =
          rank == 0 ? List.of(weights, gradients) : List.of(gradients, weights);
      for (Communicator each : order) {
        each.allReduce(data, data, 16, DataType.FLOAT32, RedOp.SUM, stream);
      }
      stream.synchronize();
      System.out.println("no conflict");
    } catch (NcclException e) {
      System.out.println(e.getClass().getSimpleName() + " " + e.getMessage());
    }
  }

  private static Communicator join(String name, String id, int rank, CommunicatorConfig config) {
    return Communicator.initRank(
        2, UniqueId.parse(id), rank, Devices.host(), config.withName(name));
  }
}
