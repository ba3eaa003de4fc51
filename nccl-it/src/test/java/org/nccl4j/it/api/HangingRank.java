package org.nccl4j.it.api;

import java.time.Duration;
import java.util.concurrent.locks.LockSupport;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** A rank in a process of its own, of a program that hangs, for {@link DiagnoseTest}. */
final class HangingRank {
  /** The program's mistake. */
  enum Mistake {
    /** Nothing: the test stops rank 1. */
    STOPPED,
    /** Nothing: each rank counts as a host of its own, and all split after each collective. */
    SPLITTING,
    /** Rank 1 leaves out the fourth collective, and ends its program's work. */
    SKIPPED,
    /** Rank 1 calls the fourth collective with another count, which may end all the same. */
    COUNT,
    /** Rank 1 receives from rank 2, which sends nothing. */
    RECEIVE
  }

  private static final int COUNT = 200_000;

  private HangingRank() {}

  /** Arguments: id, ranks, rank, mistake. */
  public static void main(String[] arguments) throws Exception {
    int rank = Integer.parseInt(arguments[2]);
    Mistake mistake = Mistake.valueOf(arguments[3]);
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withName("training")
            .withOperationTimeout(Duration.ofMinutes(10))
            .with("NCCL4J_HEARTBEAT_TIMEOUT", "10m");
    if (mistake == Mistake.SPLITTING) {
      config = config.with("NCCL_HOSTID", "" + rank).with("NCCL_SOCKET_IFNAME", "lo");
    }
    try (DeviceStream stream = Devices.host().createStream();
        DeviceMemory data = Devices.host().allocate(8L * COUNT);
        Communicator comm =
            Communicator.initRank(
                Integer.parseInt(arguments[1]),
                UniqueId.parse(arguments[0]),
                rank,
                Devices.host(),
                config)) {
      for (int n = 0; n < 3; n++) {
        reduce(comm, data, COUNT, stream);
      }
      System.out.println("ready");
      if (mistake == Mistake.STOPPED || mistake == Mistake.SPLITTING) {
        while (true) {
          reduce(comm, data, COUNT, stream);
          if (mistake == Mistake.SPLITTING) {
            comm.split(0, rank).ifPresent(Communicator::close);
          }
          LockSupport.parkNanos(1_000_000); // else it takes all processors of a small machine
        }
      }
      if (mistake == Mistake.RECEIVE && rank == 1) {
        comm.recv(data, 7, DataType.FLOAT64, 2, stream);
        stream.synchronize();
      } else if (mistake != Mistake.SKIPPED || rank != 1) {
        reduce(comm, data, mistake == Mistake.COUNT && rank == 1 ? COUNT / 2 : COUNT, stream);
      }
      System.in.read();
    }
  }

  private static void reduce(Communicator comm, DeviceMemory data, int count, DeviceStream stream) {
    comm.allReduce(data, data, count, DataType.FLOAT32, RedOp.SUM, stream);
    stream.synchronize();
  }
}
