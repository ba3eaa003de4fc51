package org.nccl4j.transport.net.socket.link;

import org.nccl4j.device.support.CloseAll;

/**
 * The helper threads that all connections of a communicator share. Connections take them in turn,
 * so that the few that carry data have different ones. They are few, since most connections of a
 * large communicator are quiet.
 */
public final class SharedSocketThreads implements AutoCloseable {
  /** As many as both directions of a connection have lanes. */
  private static final int MOST = 8;

  /** Cores for each: a host has a communicator for each GPU, whose threads are busy too. */
  private static final int CORES = 4;

  private final DataSocketThread[] threads;
  private int next;

  /**
   * No thread yet; they begin when they are first taken.
   *
   * @param cores of this host
   */
  public SharedSocketThreads(int cores) {
    threads = new DataSocketThread[Math.max(1, Math.min(MOST, cores / CORES))];
  }

  /** Returns the next one. */
  synchronized DataSocketThread take() {
    int taken = next;
    next = (next + 1) % threads.length;
    if (threads[taken] == null) {
      threads[taken] = new DataSocketThread("shared-" + taken);
    }
    return threads[taken];
  }

  @Override
  public synchronized void close() {
    CloseAll all = new CloseAll();
    for (DataSocketThread thread : threads) {
      if (thread != null) {
        all.take(thread::close);
      }
    }
    all.end();
  }
}
