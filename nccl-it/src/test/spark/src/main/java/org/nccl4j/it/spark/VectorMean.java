package org.nccl4j.it.spark;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.spark.BarrierRank;
import org.nccl4j.spark.BarrierStage;
import org.nccl4j.spark.RankOptions;

/** The mean of the vectors in a column of a DataFrame, whose partitions are the ranks. */
public final class VectorMean {
  private VectorMean() {}

  /**
   * The mean of all vectors.
   *
   * @param rows with as many partitions as ranks: see {@link Dataset#repartition(int)}
   * @param column of the type array of double or float, never null
   * @param length elements of every vector
   */
  public static double[] of(Dataset<Row> rows, String column, int length, RankOptions options) {
    return BarrierStage.mapPartitions(
            rows.select(column).javaRDD(), options, (rank, own) -> mean(rank, own, length))
        .collect() // of all ranks: a barrier stage cannot run for some partitions alone
        .get(0);
  }

  /** All ranks know the mean; rank 0 alone tells the driver. */
  private static Iterator<double[]> mean(BarrierRank rank, Iterator<Row> rows, int length) {
    long bytes = (length + 1L) * Double.BYTES;
    ByteBuffer copy = ByteBuffer.allocate((int) bytes).order(ByteOrder.nativeOrder());
    DoubleBuffer sums = copy.asDoubleBuffer(); // and the number of vectors behind them
    while (rows.hasNext()) {
      add(sums, rows.next().getList(0), length);
    }
    try (DeviceStream stream = rank.device().createStream();
        DeviceMemory data = rank.device().allocate(bytes)) {
      data.write(0, copy);
      rank.communicator().allReduce(data, data, length + 1, DataType.FLOAT64, RedOp.SUM, stream);
      stream.synchronize();
      data.read(0, copy.clear());
    }
    if (rank.rank() > 0) {
      return Collections.emptyIterator();
    }
    double[] mean = new double[length];
    for (int i = 0; i < length; i++) {
      mean[i] = sums.get(i) / sums.get(length);
    }
    return List.of(mean).iterator();
  }

  private static void add(DoubleBuffer sums, List<Number> vector, int length) {
    if (vector.size() != length) {
      throw new IllegalArgumentException(
          "a vector has %d elements instead of %d".formatted(vector.size(), length));
    }
    for (int i = 0; i < length; i++) {
      sums.put(i, sums.get(i) + vector.get(i).doubleValue());
    }
    sums.put(length, sums.get(length) + 1);
  }
}
