package org.nccl4j.it.nvls;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Operation;

/** A program of ranks that say they are on several machines, on fake GPUs by turns. */
final class FakeTreeRanks {
  private FakeTreeRanks() {}

  /** Arguments: a letter for each rank, those with the same on one machine. */
  public static void main(String[] arguments) {
    String hosts = arguments[0];
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .with("NCCL_SOCKET_IFNAME", "lo")
            .with("NCCL_P2P_DISABLE", Boolean.getBoolean("nccl4j.clique") ? "0" : "1");
    UniqueId id = UniqueId.create(config);
    List<? extends Device> devices = Devices.cuda().list();
    List<CompletableFuture<Communicator>> joining = new ArrayList<>();
    for (int rank = 0; rank < hosts.length(); rank++) {
      joining.add(
          Communicator.initRankAsync(
              hosts.length(),
              id,
              rank,
              devices.get(rank % devices.size()),
              config.with("NCCL_HOSTID", "host " + hosts.charAt(rank))));
    }
    List<Communicator> ranks = joining.stream().map(CompletableFuture::join).toList();
    int count = 1 << 20;
    System.out.println(ranks.get(0).explain(Operation.ALL_REDUCE, count, DataType.FLOAT32));
    System.out.println("transports " + ranks.get(0).transports());
    for (Communicator rank : ranks) {
      try (DeviceMemory data = rank.device().allocate(4L * count);
          DeviceStream stream = rank.device().createStream()) {
        rank.allReduce(data, data, count, DataType.FLOAT32, RedOp.SUM, stream);
      }
    }
    ranks.forEach(Communicator::close);
  }
}
