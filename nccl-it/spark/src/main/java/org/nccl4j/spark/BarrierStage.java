package org.nccl4j.spark;

import java.io.Serializable;
import org.apache.spark.api.java.JavaRDD;
import org.nccl4j.device.Arguments;
import scala.Function1;
import scala.collection.Iterator;

/**
 * Makes a stage of Spark whose tasks are the ranks of a communicator. Spark runs all its tasks at
 * the same time, so the cluster needs a free slot, with a GPU where ranks have GPUs, for each
 * partition.
 */
public final class BarrierStage {
  private BarrierStage() {}

  /**
   * Calls a function for each partition, with the rank of its task. The stage is a barrier stage
   * with the resource profile of the RDD ({@link JavaRDD#withResources}), or the default one.
   *
   * @param rows one partition for each rank
   * @param options the device and the settings of the ranks
   * @param function called once for each partition
   * @return the results of all ranks, in the order of ranks. As always, the function is called when
   *     the RDD is computed; cache it if it is used more than once
   */
  public static <T, R> JavaRDD<R> mapPartitions(
      JavaRDD<T> rows, RankOptions options, RankFunction<T, R> function) {
    Arguments.notNull(rows, "RDD");
    Arguments.notNull(options, "options of the ranks");
    Arguments.notNull(function, "function of the ranks");
    // RDD.barrier marks a stage; what follows without a shuffle belongs to the same stage.
    Function1<Iterator<T>, Iterator<T>> same =
        (Function1<Iterator<T>, Iterator<T>> & Serializable) partition -> partition;
    return rows.rdd()
        .barrier()
        .mapPartitions(same, true, rows.classTag())
        .toJavaRDD()
        .mapPartitions(partition -> run(options, function, partition));
  }

  private static <T, R> java.util.Iterator<R> run(
      RankOptions options, RankFunction<T, R> function, java.util.Iterator<T> partition)
      throws Exception {
    BarrierRank rank = BarrierRank.join(options);
    // Spark aborts or closes it when the task ends: the results are read after this call.
    return function.call(rank, partition);
  }
}
