package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.ExpertConfig;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceStream;

/** A rank of {@link ExpertsTest} or {@link ExpertsGpuTest} in a process of its own. */
public final class ExpertRank {
  static final int RANKS = 2;
  static final CommunicatorConfig CONFIG =
      CommunicatorConfig.defaults()
          .withOperationTimeout(Duration.ofSeconds(60))
          .with("NCCL_SOCKET_IFNAME", "lo");
  private static final int ROUNDS = 6;

  private ExpertRank() {}

  /** Starts all ranks, and waits for their good end. */
  static void runAll(long seed, boolean onGpus) throws Exception {
    UniqueId id = UniqueId.create(CONFIG);
    List<Process> processes = new ArrayList<>();
    try {
      for (int rank = 0; rank < RANKS; rank++) {
        List<String> command = RankJvm.command();
        command.addAll(List.of(ExpertRank.class.getName(), Integer.toString(rank)));
        command.addAll(List.of(id.toString(), Long.toString(seed), Boolean.toString(onGpus)));
        processes.add(new ProcessBuilder(command).inheritIO().start());
      }
      for (Process process : processes) {
        assertTrue(process.waitFor(300, TimeUnit.SECONDS), "a rank does not end");
        assertEquals(0, process.exitValue(), "seed " + seed);
      }
    } finally {
      processes.forEach(Process::destroyForcibly);
    }
  }

  /**
   * Arguments: the rank, the unique id, the seed, and whether it is on a GPU, as if each were of
   * another host.
   */
  public static void main(String[] arguments) {
    int rank = Integer.parseInt(arguments[0]);
    boolean onGpu = Boolean.parseBoolean(arguments[3]);
    try (Communicator comm =
            Communicator.initRank(
                RANKS,
                UniqueId.parse(arguments[1]),
                rank,
                onGpu ? Devices.cuda().list().get(rank) : Devices.host(),
                onGpu ? CONFIG.with("NCCL_HOSTID", "host " + rank) : CONFIG);
        DeviceStream stream = comm.device().createStream()) {
      ExpertConfig sizes = new ExpertConfig(9, 128, 3, 6, DataType.BFLOAT16, true);
      Experts.run(comm, stream, sizes, ROUNDS, Long.parseLong(arguments[2]));
    }
  }
}
