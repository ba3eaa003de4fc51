package org.nccl4j.it.nvls;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.it.net.RailMachine;
import org.nccl4j.operation.Operation;

/**
 * Four ranks on two GPUs that take each other for ranks of two hosts with two GPUs each. A topology
 * file puts a card beside each GPU, which both are the loopback interface.
 */
public final class RailGpus {
  static final int RANKS = 4;
  private static final int COUNT = 1 << 20;

  private RailGpus() {}

  /**
   * Arguments: a folder, and the cards' megabits a second (200000). Makes the communicators, says
   * how they are reached, how they reduce and how they gather, launches an all-reduce and an
   * all-gather, and closes them.
   */
  public static void main(String[] arguments) throws Exception {
    int megabits = arguments.length > 1 ? Integer.parseInt(arguments[1]) : RailMachine.MEGABITS;
    List<Communicator> ranks = make(Path.of(arguments[0]), megabits);
    for (Communicator rank : ranks) {
      System.out.println("rank " + rank.rank() + "\n" + routes(rank));
    }
    System.out.println(ranks.get(0).explain(Operation.ALL_REDUCE, COUNT, DataType.FLOAT32));
    System.out.println(ranks.get(0).explain(Operation.ALL_GATHER, COUNT, DataType.FLOAT32));
    for (Communicator rank : ranks) {
      try (DeviceStream stream = rank.device().createStream();
          DeviceMemory data = rank.device().allocate(4 * COUNT);
          DeviceMemory all = rank.device().allocate(4L * RANKS * COUNT)) {
        rank.allReduce(data, data, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
        rank.allGather(data, all, COUNT, DataType.FLOAT32, stream);
        stream.synchronize();
      }
    }
    ranks.forEach(Communicator::close);
  }

  static String routes(Communicator rank) {
    return rank.explain(Operation.ALL_TO_ALL, 1 << 20, DataType.FLOAT32);
  }

  static CudaDevice device(int rank) {
    return Devices.cuda().device(rank % 2);
  }

  /** The communicators, by rank. */
  static List<Communicator> make(Path folder) throws Exception {
    return make(folder, RailMachine.MEGABITS);
  }

  private static List<Communicator> make(Path folder, int megabits) throws Exception {
    List<String> gpus = List.of(device(0).pciBusId(), device(1).pciBusId());
    Path machine = RailMachine.write(folder, gpus, List.of("lo", "lo"), megabits);
    UniqueId id = UniqueId.create();
    List<CompletableFuture<Communicator>> joining = new ArrayList<>();
    for (int rank = 0; rank < RANKS; rank++) {
      CommunicatorConfig config =
          CommunicatorConfig.defaults()
              .withTransports(List.of("SHM", "NET"))
              .with("NCCL_NET", "Socket")
              .with("NCCL_SOCKET_IFNAME", "lo")
              .with("NCCL_TOPO_FILE", machine.toString())
              .with("NCCL_HOSTID", "host" + rank / 2)
              .withOperationTimeout(Duration.ofSeconds(30));
      joining.add(Communicator.initRankAsync(RANKS, id, rank, device(rank), config));
    }
    List<Communicator> made = new ArrayList<>();
    for (CompletableFuture<Communicator> each : joining) {
      made.add(each.get(300, TimeUnit.SECONDS));
    }
    return made;
  }
}
