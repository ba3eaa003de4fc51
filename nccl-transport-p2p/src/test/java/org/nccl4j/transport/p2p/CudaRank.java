package org.nccl4j.transport.p2p;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** One rank on a GPU, as a thread or as a process of its own: a few operations, checked. */
final class CudaRank {
  private static final int COUNT = 300_001;

  private CudaRank() {}

  /** Arguments: ranks, rank, unique id. */
  public static void main(String[] arguments) {
    int nRanks = Integer.parseInt(arguments[0]);
    int rank = Integer.parseInt(arguments[1]);
    CommunicatorConfig config =
        CommunicatorConfig.defaults().withOperationTimeout(Duration.ofSeconds(20));
    try (Communicator communicator =
        Communicator.initRank(
            nRanks, UniqueId.parse(arguments[2]), rank, Devices.cuda().device(rank), config)) {
      check(communicator);
    }
  }

  /** All-reduces and exchanges; throws unless the results are right. */
  static void check(Communicator communicator) {
    int n = communicator.nRanks();
    int part = COUNT / n;
    try (DeviceStream stream = communicator.device().createStream();
        DeviceMemory send = communicator.device().allocate(4L * COUNT);
        DeviceMemory recv = communicator.device().allocate(4L * COUNT)) {
      ByteBuffer data = ByteBuffer.allocateDirect(4 * COUNT).order(ByteOrder.nativeOrder());
      for (int i = 0; i < COUNT; i++) {
        data.putFloat(4 * i, value(communicator.rank(), i));
      }
      send.write(0, data.duplicate());
      for (int count : new int[] {1, 1000, COUNT}) {
        communicator.allReduce(send, recv, count, DataType.FLOAT32, RedOp.SUM, stream);
        stream.synchronize();
        recv.read(0, data.duplicate());
        for (int i = 0; i < count; i++) {
          float sum = 0;
          for (int from = 0; from < n; from++) {
            sum += value(from, i);
          }
          require(data.getFloat(4 * i) == sum, "all-reduce of " + count + " at " + i);
        }
      }
      communicator.allToAll(send, recv, part, DataType.FLOAT32, stream);
      stream.synchronize();
      recv.read(0, data.duplicate());
      for (int i = 0; i < part * n; i++) {
        float expected = value(i / part, communicator.rank() * part + i % part);
        require(data.getFloat(4 * i) == expected, "all-to-all at " + i);
      }
    }
  }

  private static float value(int rank, int place) {
    return (place * 31 + rank * 17) % 1009;
  }

  private static void require(boolean right, String what) {
    if (!right) {
      throw new AssertionError(what);
    }
  }
}
