package org.nccl4j.it.net;

import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/** Records the log's lines on refused connections while it is open. */
public final class Refusals extends Handler implements AutoCloseable {
  private final Logger logger = Logger.getLogger("org.nccl4j");
  private final Queue<String> ports = new ConcurrentLinkedQueue<>();
  private final Queue<String> reasons = new ConcurrentLinkedQueue<>();

  /** Listens from now on. */
  public Refusals() {
    logger.addHandler(this);
  }

  /** The port of each warning so far; a port that is there twice has logged twice. */
  public List<String> ports() {
    return List.copyOf(ports);
  }

  /** From where and why, of each warning so far. */
  public List<String> reasons() {
    return List.copyOf(reasons);
  }

  @Override
  public void publish(LogRecord log) {
    if (log.getMessage() != null && log.getMessage().startsWith("refused a connection")) {
      ports.add(String.valueOf(log.getParameters()[0]));
      reasons.add(String.valueOf(log.getParameters()[1]));
    }
  }

  @Override
  public void flush() {
    // Nothing is buffered.
  }

  @Override
  public void close() {
    logger.removeHandler(this);
  }
}
