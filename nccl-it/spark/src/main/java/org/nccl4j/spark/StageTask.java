package org.nccl4j.spark;

import java.util.List;
import java.util.Map;

/** A task of a stage whose tasks run at the same time: that part of Spark that ranks need. */
interface StageTask {
  /** The stage and the attempt, such as "4.0". */
  String stage();

  /** The number of this task's partition. */
  int rank();

  /** The number of tasks. */
  int nRanks();

  /** The addresses of this task's resources, by name. */
  Map<String, List<String>> addresses();

  /** Passes a text of each task to all. Waits for all of them; an interruption ends the wait. */
  String[] allGather(String own) throws Exception;

  /** True if Spark wants this task to end. */
  boolean isKilled();

  /**
   * Calls back on this task's thread.
   *
   * @param failed when the task fails, before the other
   * @param ended when the task ends, whether it failed or not
   */
  void whenOver(Runnable failed, Runnable ended);

  /**
   * Starts a thread that does not keep the executor's process alive.
   *
   * @param purpose part of the thread's name, such as "watch"
   */
  default void start(Runnable body, String purpose) {
    Thread thread = new Thread(body, "nccl4j-spark-" + purpose + "-" + rank());
    thread.setDaemon(true);
    thread.start();
  }

  /** Names the task in messages. */
  default String place() {
    return "task %d of stage %s".formatted(rank(), stage());
  }
}
