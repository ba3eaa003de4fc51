package org.nccl4j.it.nvls;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.NcclException;

/**
 * A program that is one rank, on the GPU of its number or the only one, and makes a communicator
 * and closes it.
 */
final class FakeGpuRank {
  private FakeGpuRank() {}

  /** Arguments: ranks, rank, unique id. */
  public static void main(String[] arguments) throws Exception {
    int rank = Integer.parseInt(arguments[1]);
    try (Communicator communicator =
        Communicator.initRank(
            Integer.parseInt(arguments[0]),
            UniqueId.parse(arguments[2]),
            rank,
            Devices.cuda().device(rank % Devices.cuda().list().size()),
            CommunicatorConfig.defaults())) {
      System.out.println("transports " + communicator.transports());
      System.out.println("team " + communicator.lsaTeam());
      for (int time = 0; time < Integer.getInteger("nccl4j.windows", 0); time++) {
        System.out.println("window: " + register(communicator));
      }
      String other = System.getProperty("nccl4j.late", "");
      if (!other.isEmpty()) {
        awaitClose(rank, Path.of(other));
      }
    }
  }

  /** The outcome of a registration. */
  private static String register(Communicator communicator) {
    try (DeviceMemory memory = communicator.device().memAlloc(64)) {
      communicator.deregisterWindowOnAllRanks(communicator.registerWindow(memory));
      return "registered";
    } catch (NcclException e) {
      return e.problem();
    }
  }

  /** Rank 0 says that it closes now; others give it time to end, if it does not wait for them. */
  private static void awaitClose(int rank, Path file) throws Exception {
    if (rank == 0) {
      Path written = Files.writeString(Path.of(file + ".new"), "" + ProcessHandle.current().pid());
      Files.move(written, file);
      return;
    }
    while (!Files.exists(file)) {
      TimeUnit.MILLISECONDS.sleep(5);
    }
    long first = Long.parseLong(Files.readString(file));
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(1);
    while (ProcessHandle.of(first).isPresent() && System.nanoTime() - end < 0) {
      TimeUnit.MILLISECONDS.sleep(5);
    }
  }
}
