package org.nccl4j.spark;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.BarrierTaskContext;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;
import org.apache.spark.util.TaskFailureListener;
import org.nccl4j.device.InvalidUsageException;

/** The calling thread's task of a barrier stage. */
record SparkTask(BarrierTaskContext context) implements StageTask {
  /**
   * The task that the calling thread runs.
   *
   * @throws InvalidUsageException outside a task, and in a task of another stage
   */
  static SparkTask current() {
    TaskContext context = TaskContext.get();
    if (context == null) {
      throw new InvalidUsageException(
          "this thread runs no task of Spark: it is the driver's, or one that a task has started",
          "call BarrierStage.mapPartitions in the driver, and BarrierRank.join on the thread that"
              + " runs the task");
    }
    if (!(context instanceof BarrierTaskContext barrier)) {
      throw new InvalidUsageException(
          "stage %d.%d is not a barrier stage: its tasks need not run at the same time"
              .formatted(context.stageId(), context.stageAttemptNumber()),
          "create the stage with BarrierStage.mapPartitions, or with RDD.barrier().mapPartitions");
    }
    return new SparkTask(barrier);
  }

  @Override
  public String stage() {
    return context.stageId() + "." + context.stageAttemptNumber();
  }

  @Override
  public int rank() {
    return context.partitionId();
  }

  @Override
  public int nRanks() {
    return context.getTaskInfos().length;
  }

  @Override
  public Map<String, List<String>> addresses() {
    Map<String, List<String>> addresses = new TreeMap<>();
    context
        .resourcesJMap()
        .forEach((name, given) -> addresses.put(name, List.of(given.addresses())));
    return addresses;
  }

  @Override
  public String[] allGather(String own) {
    return context.allGather(own);
  }

  @Override
  public boolean isKilled() {
    return context.isInterrupted();
  }

  @Override
  public void whenOver(Runnable failed, Runnable ended) {
    context.addTaskFailureListener((TaskFailureListener) (task, error) -> failed.run());
    context.addTaskCompletionListener((TaskCompletionListener) task -> ended.run());
  }
}
