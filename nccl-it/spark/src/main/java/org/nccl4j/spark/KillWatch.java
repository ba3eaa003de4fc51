package org.nccl4j.spark;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Watches for the end that Spark wants of a task, such as of the other tasks when one has failed.
 * Spark only sets a flag: it interrupts no thread by default, so operations would wait on.
 */
final class KillWatch implements Runnable {
  private static final long PERIOD_MILLIS = 100;

  private final StageTask task;
  private final Runnable onKill;
  private final CountDownLatch over = new CountDownLatch(1);

  private KillWatch(StageTask task, Runnable onKill) {
    this.task = task;
    this.onKill = onKill;
  }

  /** Watches a task until it is killed, which is told once, or {@link #stop}. */
  static KillWatch start(StageTask task, Runnable onKill) {
    KillWatch watch = new KillWatch(task, onKill);
    task.start(watch, "watch");
    return watch;
  }

  void stop() {
    over.countDown();
  }

  @Override
  public void run() {
    try {
      while (!over.await(PERIOD_MILLIS, TimeUnit.MILLISECONDS)) {
        if (task.isKilled()) {
          onKill.run();
          return;
        }
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt(); // nobody does; without the watch deadlines are left
    }
  }
}
