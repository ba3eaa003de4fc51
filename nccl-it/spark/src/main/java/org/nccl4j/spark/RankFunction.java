package org.nccl4j.spark;

import java.io.Serializable;
import java.util.Iterator;

/**
 * The work of one task of a barrier stage, which is one rank of a communicator.
 *
 * @param <T> the rows of its partition
 * @param <R> the rows of its result
 */
@FunctionalInterface
public interface RankFunction<T, R> extends Serializable {
  /**
   * Does the work. All tasks of the stage run it at the same time, and make the same collective
   * calls in the same order, also tasks whose partition is empty.
   *
   * @param rank this task's rank; it is closed when the task ends
   * @param rows of this task's partition
   * @return the task's result. Spark reads it after this call; until then the rank is open
   * @throws Exception to end the stage: the other ranks' operations end with an error
   */
  Iterator<R> call(BarrierRank rank, Iterator<T> rows) throws Exception;
}
