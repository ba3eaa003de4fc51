package org.nccl4j.it.flink;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.nccl4j.api.Communicator;

/**
 * Aborts a communicator when Flink cancels the task of the calling thread. Flink interrupts the
 * thread; that alone does not end a wait for other ranks.
 */
final class CancelWatch implements Runnable, AutoCloseable {
  private final Thread task = Thread.currentThread();
  private final CountDownLatch over = new CountDownLatch(1);
  private final Communicator communicator;

  private CancelWatch(Communicator communicator) {
    this.communicator = communicator;
  }

  static CancelWatch start(Communicator communicator) {
    CancelWatch watch = new CancelWatch(communicator);
    Thread thread = new Thread(watch, "watch of rank " + communicator.rank());
    thread.setDaemon(true);
    thread.start();
    return watch;
  }

  @Override
  public void run() {
    try {
      while (!over.await(100, TimeUnit.MILLISECONDS)) {
        if (task.isInterrupted()) {
          communicator.abort();
          return;
        }
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  @Override
  public void close() {
    over.countDown();
  }
}
