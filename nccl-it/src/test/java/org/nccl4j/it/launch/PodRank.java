package org.nccl4j.it.launch;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.LaunchEnvironment;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** The program of docs/guides/kubernetes.md, with an all-reduce whose result it prints. */
final class PodRank {
  private PodRank() {}

  /** No arguments. */
  public static void main(String[] arguments) {
    LaunchEnvironment place = LaunchEnvironment.required();
    UniqueId id = place.uniqueId().orElseGet(UniqueId::create);
    try (Communicator communicator =
            Communicator.initRank(place.nRanks(), id, place.rank(), Devices.host());
        DeviceMemory data = Devices.host().allocate(4);
        DeviceStream stream = Devices.host().createStream()) {
      ByteBuffer value = ByteBuffer.allocate(4).order(ByteOrder.nativeOrder());
      data.write(0, value.putInt(0, 1 << place.rank()));
      communicator.allReduce(data, data, 1, DataType.INT32, RedOp.SUM, stream);
      stream.synchronize();
      data.read(0, value.clear());
      String line = "rank %d of %d, local %d: %d%n";
      // In one piece: the ranks of a pod share its output.
      System.out.print(
          line.formatted(place.rank(), place.nRanks(), place.localRank(), value.getInt(0)));
    }
  }
}
