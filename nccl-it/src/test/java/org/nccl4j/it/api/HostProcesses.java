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
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceStream;

/**
 * Ranks in processes of their own that say they are on several hosts. Those on GPUs share them by
 * turns where there are too few: a GPU takes turns between processes though their kernels wait for
 * each other, which it does not between the threads of one.
 */
public final class HostProcesses {
  private static final CommunicatorConfig CONFIG =
      CommunicatorConfig.defaults()
          .withOperationTimeout(Duration.ofSeconds(60))
          .with("NCCL_SOCKET_IFNAME", "lo")
          .with("NCCL_MULTI_RANK_GPU_ENABLE", "1");

  private static final int PATIENCE_SECONDS = 300;

  private HostProcesses() {}

  /** The work of each rank; has a public constructor without arguments. */
  public interface Program {
    /** Adds to a rank's configuration. */
    default CommunicatorConfig configure(CommunicatorConfig config) {
      return config;
    }

    /**
     * A rank's work.
     *
     * @param hosts a letter for each rank: those with the same are on one host
     */
    void run(Communicator comm, DeviceStream stream, String hosts, long seed) throws Exception;
  }

  /** Starts a rank for each letter, and waits for the good end of all. */
  static void run(String hosts, Device.Kind kind, Class<? extends Program> program, long seed)
      throws Exception {
    UniqueId id = UniqueId.create(CONFIG);
    List<Process> processes = new ArrayList<>();
    try {
      for (int rank = 0; rank < hosts.length(); rank++) {
        List<String> command = RankJvm.command();
        command.addAll(List.of(HostProcesses.class.getName(), program.getName()));
        command.addAll(List.of(hosts, Integer.toString(rank), kind.name(), id.toString()));
        command.add(Long.toString(seed));
        processes.add(new ProcessBuilder(command).inheritIO().start());
      }
      for (Process process : processes) {
        assertTrue(process.waitFor(PATIENCE_SECONDS, TimeUnit.SECONDS), "a rank does not end");
        assertEquals(0, process.exitValue(), "seed " + seed);
      }
    } finally {
      processes.forEach(Process::destroyForcibly);
    }
  }

  /** A rank; arguments as {@link #run} passes them. */
  public static void main(String[] arguments) throws Exception {
    Program program = (Program) Class.forName(arguments[0]).getDeclaredConstructor().newInstance();
    String hosts = arguments[1];
    int rank = Integer.parseInt(arguments[2]);
    List<? extends Device> devices =
        Device.Kind.valueOf(arguments[3]) == Device.Kind.HOST
            ? List.of(Devices.host())
            : Devices.cuda().list();
    CommunicatorConfig config =
        program.configure(CONFIG.with("NCCL_HOSTID", "host " + hosts.charAt(rank)));
    try (Communicator comm =
            Communicator.initRank(
                hosts.length(),
                UniqueId.parse(arguments[4]),
                rank,
                devices.get(rank % devices.size()),
                config);
        DeviceStream stream = comm.device().createStream()) {
      program.run(comm, stream, hosts, Long.parseLong(arguments[5]));
    }
  }
}
