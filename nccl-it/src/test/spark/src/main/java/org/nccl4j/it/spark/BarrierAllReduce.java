package org.nccl4j.it.spark;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.api.java.JavaRDD;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.spark.BarrierRank;
import org.nccl4j.spark.BarrierStage;
import org.nccl4j.spark.RankOptions;

/**
 * Adds up vectors that lie in the partitions of an RDD. Every partition is a rank: it adds its own
 * vectors, and an all-reduce gives each the sum over all, without a way through the driver.
 */
public final class BarrierAllReduce {
  private BarrierAllReduce() {}

  /**
   * The sum of all vectors, once for each partition.
   *
   * @param length elements of every vector
   */
  public static JavaRDD<float[]> sums(JavaRDD<float[]> vectors, int length, RankOptions options) {
    return BarrierStage.mapPartitions(
        vectors, options, (rank, own) -> List.of(allReduce(rank, added(own, length))).iterator());
  }

  private static float[] added(Iterator<float[]> vectors, int length) {
    float[] sum = new float[length];
    while (vectors.hasNext()) {
      float[] vector = vectors.next();
      for (int i = 0; i < length; i++) {
        sum[i] += vector[i];
      }
    }
    return sum;
  }

  /** The sum of what all ranks have. */
  static float[] allReduce(BarrierRank rank, float[] values) {
    long bytes = (long) values.length * Float.BYTES;
    try (DeviceStream stream = rank.device().createStream();
        DeviceMemory data = rank.device().allocate(bytes)) {
      ByteBuffer copy = ByteBuffer.allocate((int) bytes).order(ByteOrder.nativeOrder());
      copy.asFloatBuffer().put(values);
      data.write(0, copy);
      rank.communicator().allReduce(data, data, values.length, DataType.FLOAT32, RedOp.SUM, stream);
      stream.synchronize();
      data.read(0, copy.clear());
      float[] sum = new float[values.length];
      copy.clear().asFloatBuffer().get(sum);
      return sum;
    }
  }
}
