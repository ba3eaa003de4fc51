package org.nccl4j.device;

/**
 * A point in a stream that another stream or a thread can wait for; two events measure the time
 * between them. Any thread may call any method; after {@link #close()} all others throw {@link
 * InvalidUsageException}.
 */
public abstract class DeviceEvent implements AutoCloseable {
  /** Creates an event; only implementations in this module do. */
  protected DeviceEvent() {}

  /**
   * True if the stream has reached its last recording, or if it was never recorded. Never waits.
   */
  public abstract boolean isComplete();

  /**
   * True if {@link #isComplete()} is so, as far as is known. Unlike that it starts nothing: on the
   * host device, what the stream has not begun stays for the thread that synchronizes.
   */
  public boolean isKnownComplete() {
    return isComplete();
  }

  /** Waits until the stream has reached its last recording. */
  public abstract void synchronize();

  /**
   * Microseconds from another event's last recording to this one's.
   *
   * @throws InvalidUsageException if a stream has not reached one of them
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
