package org.nccl4j.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;

/** A barrier stage whose tasks are threads of this process, in Spark's place. */
final class MemoryStage {
  private static final int PATIENCE_SECONDS = 300;

  /** The work of a task. */
  interface Work<R> {
    R of(Task task) throws Exception;
  }

  private final String[] said;
  private String[] heard;
  private int arrived;
  private int round;
  private final List<Task> tasks = new ArrayList<>();

  /** With the resources of each task, by the task's number. */
  MemoryStage(int nTasks, IntFunction<Map<String, List<String>>> resources) {
    said = new String[nTasks];
    for (int rank = 0; rank < nTasks; rank++) {
      tasks.add(new Task(rank, resources.apply(rank)));
    }
  }

  /** One task's interruption does not end the others' wait, as in Spark. */
  private synchronized String[] gather(int rank, String own) throws InterruptedException {
    said[rank] = own;
    int current = round;
    if (++arrived == said.length) {
      arrived = 0;
      round++;
      heard = said.clone();
      notifyAll();
    }
    while (round == current) {
      wait();
    }
    return heard;
  }

  Task task(int rank) {
    return tasks.get(rank);
  }

  /** Runs all tasks, each to its end; returns what they returned or threw. */
  <R> List<Object> run(Work<R> work) throws InterruptedException {
    List<CompletableFuture<R>> running = new ArrayList<>();
    for (Task task : tasks) {
      CompletableFuture<R> result = new CompletableFuture<>();
      running.add(result);
      new Thread(() -> task.run(work, result), "task " + task.rank()).start();
    }
    List<Object> ends = new ArrayList<>();
    for (CompletableFuture<R> each : running) {
      try {
        ends.add(each.get(PATIENCE_SECONDS, TimeUnit.SECONDS));
      } catch (ExecutionException e) {
        ends.add(e.getCause());
      } catch (java.util.concurrent.TimeoutException e) {
        throw new AssertionError("a task does not end", e);
      }
    }
    return ends;
  }

  /** One of its tasks. */
  final class Task implements StageTask {
    private final int rank;
    private final Map<String, List<String>> resources;
    private final List<Runnable> onFailure = new ArrayList<>();
    private final List<Runnable> onEnd = new ArrayList<>();
    private volatile boolean killed;

    Task(int rank, Map<String, List<String>> resources) {
      this.rank = rank;
      this.resources = resources;
    }

    private <R> void run(Work<R> work, CompletableFuture<R> result) {
      R returned = null;
      Throwable thrown = null;
      try {
        returned = work.of(this);
      } catch (Throwable e) {
        thrown = e;
        onFailure.forEach(Runnable::run);
      }
      onEnd.forEach(Runnable::run);
      if (thrown == null) {
        result.complete(returned);
      } else {
        result.completeExceptionally(thrown);
      }
    }

    void kill() {
      killed = true;
    }

    @Override
    public String stage() {
      return "7.0";
    }

    @Override
    public int rank() {
      return rank;
    }

    @Override
    public int nRanks() {
      return said.length;
    }

    @Override
    public Map<String, List<String>> addresses() {
      return resources;
    }

    @Override
    public String[] allGather(String own) throws Exception {
      return gather(rank, own);
    }

    @Override
    public boolean isKilled() {
      return killed;
    }

    @Override
    public void whenOver(Runnable failed, Runnable ended) {
      onFailure.add(failed);
      onEnd.add(ended);
    }
  }
}
