package org.nccl4j.api.observe;

import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceStream;

/** Receives a rank's operations, in their order, from one thread at a time. */
public interface OperationHook extends AutoCloseable {
  /**
   * Returns how many of the next operations, each of one launch, this hook need not be told of. It
   * may be told of them all the same.
   */
  default int unwanted() {
    return 0;
  }

  /**
   * Operations are about to be launched; {@link #launched} follows for each, unless a launch fails.
   *
   * @param launches of them or of their parts
   * @param untold operations since those told last, which no hook wanted
   */
  default void launching(int launches, int untold) {}

  /** An operation has been launched into a stream. */
  void launched(String what, long count, DataType type, int root, DeviceStream stream);

  /**
   * Waits until what this hook wants to know of the ends of operations is told to it. The
   * communicator is being closed or suspended.
   *
   * @param all of all operations, which have ended; else of those that have ended by now, since
   *     others may never end
   * @param end the time of {@link System#nanoTime} at which it waits no longer
   */
  default void settle(boolean all, long end) {}

  /** There will be no more. */
  @Override
  default void close() {}
}
