package org.nccl4j.it.spark;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.spark.BarrierTaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import scala.Function1;
import scala.collection.Iterator;
import scala.reflect.ClassTag$;

/**
 * Adds up vectors that lie in the partitions of an RDD. Every partition is a rank: it adds its own
 * vectors, and an all-reduce gives each the sum over all, without a way through the driver.
 */
public final class BarrierAllReduce {
  private BarrierAllReduce() {}

  /**
   * The sum of all vectors, once for each partition. All partitions run at once, so there must be
   * as many free cores as partitions.
   *
   * @param length elements of every vector
   */
  public static JavaRDD<float[]> sums(JavaRDD<float[]> vectors, int length) {
    Function1<Iterator<float[]>, Iterator<float[]>> task =
        (Function1<Iterator<float[]>, Iterator<float[]>> & Serializable)
            own -> scala.collection.Iterator$.MODULE$.single(allReduce(added(own, length)));
    return vectors
        .rdd()
        .barrier()
        .mapPartitions(task, false, ClassTag$.MODULE$.<float[]>apply(float[].class))
        .toJavaRDD();
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

  /** In a task of a barrier stage: the sum of what all its tasks have. */
  static float[] allReduce(float[] values) {
    BarrierTaskContext task = BarrierTaskContext.get();
    int rank = task.partitionId();
    // The first task makes the id. Spark carries it to the others, over its own connections.
    String offered = rank == 0 ? UniqueId.create().toString() : "";
    UniqueId id = UniqueId.parse(task.allGather(offered)[0]);
    long bytes = (long) values.length * Float.BYTES;
    Device device = Devices.host();
    try (Communicator communicator =
            Communicator.initRank(task.getTaskInfos().length, id, rank, device);
        DeviceStream stream = device.createStream();
        DeviceMemory data = device.allocate(bytes)) {
      ByteBuffer copy = ByteBuffer.allocate((int) bytes).order(ByteOrder.nativeOrder());
      copy.asFloatBuffer().put(values);
      data.write(0, copy);
      communicator.allReduce(data, data, values.length, DataType.FLOAT32, RedOp.SUM, stream);
      stream.synchronize();
      data.read(0, copy.clear());
      float[] sum = new float[values.length];
      copy.clear().asFloatBuffer().get(sum);
      return sum;
    }
  }
}
