package org.nccl4j.spark;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** An all-reduce that tests call. */
final class Sums {
  private static final int COUNT = 1000;

  private Sums() {}

  /** The last element of a sum of vectors with one value each. */
  static int sum(BarrierRank rank, int own) {
    try (DeviceMemory data = rank.device().allocate(4L * COUNT);
        DeviceStream stream = rank.device().createStream()) {
      ByteBuffer values = ByteBuffer.allocate(4 * COUNT).order(ByteOrder.nativeOrder());
      for (int i = 0; i < COUNT; i++) {
        values.putInt(4 * i, own);
      }
      data.write(0, values);
      rank.communicator().allReduce(data, data, COUNT, DataType.INT32, RedOp.SUM, stream);
      stream.synchronize();
      data.read(0, values.clear());
      return values.getInt(4 * (COUNT - 1));
    }
  }
}
