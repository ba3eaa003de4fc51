package org.nccl4j.spark;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.nccl4j.api.Communicator;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.TimeoutException;

/**
 * Waits for the other tasks of a stage, until a deadline or until Spark kills the task. Spark's own
 * wait may last for a year.
 */
final class Waiting {
  private static final long PERIOD_MILLIS = 50;

  private final StageTask task;

  Waiting(StageTask task) {
    this.task = task;
  }

  /** Passes a message to all tasks; returns theirs, by rank. */
  List<StartMessage> forAll(StartMessage own, Duration deadline) {
    FutureTask<String[]> gathering = new FutureTask<>(() -> task.allGather(own.toText()));
    task.start(gathering, "gather");
    long end = System.nanoTime() + TimeUnit.NANOSECONDS.convert(deadline);
    try {
      while (!isDone(gathering)) {
        refuseKilled();
        if (System.nanoTime() - end >= 0) {
          throw new TimeoutException(
              ErrorId.RANKS_MISSING,
              "%s waited %s s for the other %d tasks to join"
                  .formatted(task.place(), deadline.toMillis() / 1000.0, task.nRanks() - 1),
              "have every task call BarrierRank.join, also with an empty partition, before anything"
                  + " that takes long, or allow more time with RankOptions.withStartTimeout");
        }
      }
      return StartMessage.parse(gathering.get());
    } catch (ExecutionException e) {
      refuseKilled(); // which ends the exchange too
      throw new SystemErrorException(
          "%s could not exchange messages with the other tasks: %s"
              .formatted(task.place(), e.getCause()),
          "look at the other tasks' errors: when one fails, Spark ends all",
          e.getCause());
    } catch (InterruptedException e) {
      throw interrupted();
    } finally {
      gathering.cancel(true);
    }
  }

  /** Waits for a communicator, which has a deadline of its own. */
  Communicator forCreation(CompletableFuture<Communicator> made) {
    try {
      while (!isDone(made)) {
        refuseKilled();
      }
      return made.get();
    } catch (ExecutionException e) {
      throw again(e.getCause());
    } catch (InterruptedException e) {
      throw interrupted();
    } finally {
      made.cancel(true);
    }
  }

  private RuntimeException again(Throwable cause) {
    if (cause instanceof NcclException e) {
      return e.within(task.place() + ": " + e.problem());
    }
    throw new IllegalStateException("the creation of a communicator", cause);
  }

  private static boolean isDone(java.util.concurrent.Future<?> future)
      throws InterruptedException, ExecutionException {
    try {
      future.get(PERIOD_MILLIS, TimeUnit.MILLISECONDS);
      return true;
    } catch (java.util.concurrent.TimeoutException e) {
      return false;
    }
  }

  private void refuseKilled() {
    if (task.isKilled()) {
      throw new InvalidUsageException(
          ErrorId.ABORTED,
          "Spark ends %s before all tasks have joined".formatted(task.place()),
          "look at the other tasks' errors: when one fails, Spark ends all");
    }
  }

  private NcclException interrupted() {
    Thread.currentThread().interrupt();
    return new InvalidUsageException(
        ErrorId.ABORTED,
        "the thread of %s was interrupted before all tasks had joined".formatted(task.place()),
        "look at who interrupts it; Spark does so with spark.job.interruptOnCancel");
  }
}
