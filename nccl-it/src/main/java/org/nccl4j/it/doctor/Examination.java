package org.nccl4j.it.doctor;

import java.lang.management.ManagementFactory;
import java.util.List;
import java.util.Locale;
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

  /** The finding on an examination that took too long. */
  static Finding late(String subject, String detail) {
    if (!subject.equals(DeviceExaminations.HOST)) {
      return Finding.warn(subject, detail, "see the kernel's log (dmesg) for a driver that hangs");
    }
    double load = ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage();
    return Finding.warn(
        subject,
        detail
            + (load < 0
                ? "; the machine may be busy"
                : String.format(Locale.ROOT, "; the machine may be busy (load %.1f)", load)),
        "run the command again when the machine is less busy");
  }

  /** Looks. */
  List<Finding> findings() {
    FutureTask<List<Finding>> task = new FutureTask<>(look::get);
    Thread thread = new Thread(task, "doctor: " + subject);
    thread.setDaemon(true);
    thread.start();
    try {
      return task.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
    } catch (TimeoutException e) {
      return List.of(late(subject, "did not answer within " + PATIENCE_SECONDS + " s"));
    } catch (ExecutionException e) {
      return List.of(Finding.warn(subject, "failed: " + e.getCause(), "report this as a defect"));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return List.of();
    }
  }
}
