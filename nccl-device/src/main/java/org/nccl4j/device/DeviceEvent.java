package org.nccl4j.device;

/**
 * A point in a stream, for another stream or a thread to wait for, and to measure time between. Any
 * thread may call any method; all but {@link #close()} throw {@link InvalidUsageException} after
 * it.
 */
public abstract class DeviceEvent implements AutoCloseable {
  /** Creates an event; only implementations in this module do. */
  protected DeviceEvent() {}

  /** True if its last recording has happened, or if it was never recorded. Never waits. */
  public abstract boolean isComplete();

  /** Waits until its last recording has happened. */
  public abstract void synchronize();

  /**
   * Microseconds from another event's last recording to this one's.
   *
   * @throws InvalidUsageException if either has not happened
   */
  public abstract double microsecondsSince(DeviceEvent earlier);

  /** The error of a use of a closed event. */
  protected final InvalidUsageException closed() {
    return new InvalidUsageException(
        ErrorId.CLOSED, "an event is used after close", "close an event after its last use");
  }

  /** Frees it. Calling it again does nothing. */
  @Override
  public abstract void close();
}
