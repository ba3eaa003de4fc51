package org.nccl4j.device;

/**
 * A point in a stream, for another stream or a thread to wait for, and to measure time between. Any
 * thread may call any method.
 */
public abstract class DeviceEvent implements AutoCloseable {
  /** For the implementations in this module. */
  protected DeviceEvent() {}

  /** Whether its last recording has happened; true if it was never recorded. Never waits. */
  public abstract boolean isComplete();

  /** Waits until its last recording has happened. */
  public abstract void synchronize();

  /**
   * Microseconds from another event's last recording to this one's.
   *
   * @throws InvalidUsageException if either has not happened
   */
  public abstract double microsecondsSince(DeviceEvent earlier);

  /** Frees it. Calling it again does nothing. */
  @Override
  public abstract void close();
}
