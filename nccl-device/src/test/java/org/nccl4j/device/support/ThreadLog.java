package org.nccl4j.device.support;

import java.util.List;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.SimpleFormatter;

/**
 * Collects what one thread logs, at the handler's level and above; others may log of communicators
 * of earlier tests.
 */
public final class ThreadLog extends Handler {
  private final Thread own = Thread.currentThread();
  private final List<String> lines;

  /** Adds the lines of the calling thread to a list. */
  public ThreadLog(List<String> lines) {
    this.lines = lines;
  }

  @Override
  public void publish(LogRecord line) {
    if (Thread.currentThread() == own && isLoggable(line)) {
      lines.add(new SimpleFormatter().formatMessage(line));
    }
  }

  @Override
  public void flush() {}

  @Override
  public void close() {}
}
