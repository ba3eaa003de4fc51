package org.nccl4j.it.netns;

import java.io.IOException;
import java.nio.channels.ServerSocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.LaunchEnvironment;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/**
 * A rank of faults.sh: all-reduces over and over until something fails, then says what failed and
 * what is left of the library in this process. Exit status 0 if it failed and nothing is left.
 */
public final class Endurance {
  private static final long BYTES = 64L << 20;

  private Endurance() {}

  /** Its rank and where rank 0 listens come from the environment. */
  public static void main(String[] arguments) throws IOException, InterruptedException {
    // Java keeps a socket of its own from the first one on.
    ServerSocketChannel.open().close();
    List<String> before = sockets().toList();
    LaunchEnvironment place = LaunchEnvironment.required();
    Device device = Devices.host();
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withName("endurance")
            .withOperationTimeout(Duration.ofSeconds(60));
    Communicator communicator =
        Communicator.initRank(
            place.nRanks(), UniqueId.create(config), place.rank(), device, config);
    try (DeviceStream stream = device.createStream();
        DeviceMemory data = device.allocate(BYTES)) {
      for (int round = 0; ; round++) {
        communicator.allReduce(data, data, BYTES / 4, DataType.FLOAT32, RedOp.SUM, stream);
        stream.synchronize();
        if (round == 0) {
          System.out.println("READY");
        }
      }
    } catch (NcclException e) {
      System.out.println("FAILED " + e.getMessage());
    } finally {
      communicator.close();
    }
    System.exit(left(before));
  }

  /** Threads of the library and sockets, both 0 if all is well; some need a moment to end. */
  private static int left(List<String> before) throws InterruptedException {
    List<String> left = List.of();
    for (int look = 0; look < 600; look++) {
      left = Stream.concat(threads(), sockets().filter(s -> !before.contains(s))).toList();
      if (left.isEmpty()) {
        break;
      }
      Thread.sleep(100);
    }
    System.out.println("LEFT " + left);
    return left.isEmpty() ? 0 : 1;
  }

  private static Stream<String> threads() {
    return Thread.getAllStackTraces().keySet().stream()
        .map(Thread::getName)
        .filter(name -> name.startsWith("nccl4j-"))
        .filter(name -> !name.contains("stream") && !name.contains("dispatch"));
  }

  private static Stream<String> sockets() {
    try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"))) {
      return files
          .map(Endurance::target)
          .filter(name -> name.startsWith("socket:"))
          .toList()
          .stream();
    } catch (IOException e) {
      return Stream.of(e.toString());
    }
  }

  private static String target(Path file) {
    try {
      return Files.readSymbolicLink(file).toString();
    } catch (IOException e) {
      return "";
    }
  }
}
