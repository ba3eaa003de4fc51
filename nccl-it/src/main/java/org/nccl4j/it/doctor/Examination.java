package org.nccl4j.it.doctor;

import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;

/**
 * Something that the doctor looks at, with an end: a driver that hangs does not hang the doctor.
 */
record Examination(String subject, Supplier<List<Finding>> look) {
  static final int PATIENCE_SECONDS = 20;

  /** Looks. */
  List<Finding> findings() {
    FutureTask<List<Finding>> task = new FutureTask<>(look::get);
    Thread thread = new Thread(task, "doctor: " + subject);
    thread.setDaemon(true);
    thread.start();
    try {
      return task.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
    } catch (TimeoutException e) {
      return List.of(
          Finding.warn(
              subject,
              "did not answer within " + PATIENCE_SECONDS + " s",
              "see the kernel's log (dmesg) for a driver that hangs"));
    } catch (ExecutionException e) {
      return List.of(Finding.warn(subject, "failed: " + e.getCause(), "report this as a defect"));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return List.of();
    }
  }
}
