import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.LaunchEnvironment;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/**
 * Least time of an all-reduce among rounds in which pairs of buffers are used in turn, as a program
 * uses those of its gradients. Arguments: bytes of a buffer, and numbers of pairs.
 *
 * <pre>
 *   classes=$(echo nccl-*&#47;target/classes nccl-it/target/modules/*.jar | tr ' ' ':')
 *   javac -proc:none -d out -cp "$classes" docs/benchmarks/ManyBuffers.java
 *   ./nccl run -n 2 -- java -XX:+UseSerialGC -cp "out:$classes" ManyBuffers 65536 8 14 20 40 120
 * </pre>
 */
public final class ManyBuffers {
  private static final int ROUNDS = 400;
  private static final int WARM_UP = 20;

  private ManyBuffers() {}

  public static void main(String[] arguments) {
    LaunchEnvironment place = LaunchEnvironment.required();
    Device host = Devices.host();
    try (Communicator comm =
            Communicator.initRank(
                place.nRanks(), place.uniqueId().orElseThrow(), place.rank(), host);
        DeviceStream stream = host.createStream()) {
      long bytes = Long.parseLong(arguments[0]);
      StringBuilder line = new StringBuilder(bytes + " bytes");
      for (int a = 1; a < arguments.length; a++) {
        int pairs = Integer.parseInt(arguments[a]);
        line.append(", %d buffers: %.1f us".formatted(2 * pairs, time(comm, stream, bytes, pairs)));
      }
      if (comm.rank() == 0) {
        System.out.println(line);
      }
    }
  }

  private static double time(Communicator comm, DeviceStream stream, long bytes, int pairs) {
    List<DeviceMemory> send = new ArrayList<>();
    List<DeviceMemory> recv = new ArrayList<>();
    for (int pair = 0; pair < pairs; pair++) {
      send.add(comm.device().allocate(bytes));
      recv.add(comm.device().allocate(bytes));
      send.get(pair).fill((byte) 0);
      recv.get(pair).fill((byte) 0);
    }
    long least = Long.MAX_VALUE;
    for (int round = 0; round < ROUNDS; round++) {
      long begun = System.nanoTime();
      for (int pair = 0; pair < pairs; pair++) {
        comm.allReduce(
            send.get(pair), recv.get(pair), bytes / 4, DataType.FLOAT32, RedOp.SUM, stream);
      }
      stream.synchronize();
      long took = System.nanoTime() - begun;
      least = round < WARM_UP ? least : Math.min(least, took);
    }
    send.forEach(DeviceMemory::close);
    recv.forEach(DeviceMemory::close);
    return least / 1e3 / pairs;
  }
}
