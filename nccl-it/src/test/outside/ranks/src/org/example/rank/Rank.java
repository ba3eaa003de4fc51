package org.example.rank;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.TreeMap;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.LaunchEnvironment;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** One rank of several processes: all-reduces of many sizes, with a check of every element. */
public final class Rank {
  private Rank() {}

  /** Prints the number of right elements; fails if one is wrong. */
  public static void main(String[] arguments) {
    String arch = System.getProperty("os.arch");
    if (!arch.equals(System.getProperty("expected.arch", arch))) {
      throw new AssertionError("this is Java for " + arch);
    }
    LaunchEnvironment place = LaunchEnvironment.required();
    int n = place.nRanks();
    long right = 0;
    long elements = 0;
    Device device = Devices.host();
    try (Communicator rank =
            Communicator.initRank(n, UniqueId.create(), place.rank(), device);
        DeviceStream stream = device.createStream()) {
      for (int count = 1; count <= 1 << 18; count *= 8) {
        try (DeviceMemory memory = device.allocate(4L * count)) {
          memory.fill((byte) (place.rank() + 1));
          rank.allReduce(memory, memory, count, DataType.INT32, RedOp.SUM, stream);
          stream.synchronize();
          ByteBuffer bytes = ByteBuffer.allocate(4 * count);
          memory.read(0, bytes);
          for (byte each : bytes.array()) {
            right += each == n * (n + 1) / 2 ? 1 : 0;
          }
          elements += bytes.capacity();
        }
      }
      Map<Integer, String> transports = new TreeMap<>(rank.transports());
      // One write: the parts of printf would mix with those of other ranks.
      System.out.println(
          String.format(
              "%s: rank %d of %d over %s: %d of %d bytes right",
              arch, place.rank(), n, transports.values(), right, elements));
    }
    if (right != elements) {
      throw new AssertionError(elements - right + " bytes are wrong");
    }
  }
}
