package org.nccl4j.it.perf.report;

import me.tongfei.progressbar.ProgressBar;
import me.tongfei.progressbar.ProgressBarBuilder;
import me.tongfei.progressbar.ProgressBarStyle;

/** A bar on standard error while there is nothing else to see; nothing if nobody watches. */
public final class Progress implements AutoCloseable {
  private final ProgressBar bar;

  /**
   * Begins.
   *
   * @param watched whether standard error is a terminal
   * @param task what goes on
   * @param total steps
   */
  public Progress(boolean watched, String task, long total) {
    bar =
        watched
            ? new ProgressBarBuilder()
                .setTaskName(task)
                .setInitialMax(total)
                .setStyle(ProgressBarStyle.ASCII)
                .setUpdateIntervalMillis(200)
                .clearDisplayOnFinish()
                .build()
            : null;
  }

  /** Says how many steps are done. */
  public void to(long done) {
    if (bar != null) {
      bar.stepTo(done);
    }
  }

  @Override
  public void close() {
    if (bar != null) {
      bar.close();
    }
  }
}
