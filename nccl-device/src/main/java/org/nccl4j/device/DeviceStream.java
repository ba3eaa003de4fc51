package org.nccl4j.device;

import java.time.Duration;

/**
 * A queue of operations that a device runs one after the other, in the order in which they were
 * launched. Any thread may call any method.
 *
 * <p>Whatever launches throws {@link InvalidArgumentException} for null, and {@link
 * InvalidUsageException} after {@link #close()}.
 */
public abstract class DeviceStream implements AutoCloseable {
  private final Leases leases;

  /**
   * Creates a stream; only implementations in this module do.
   *
   * @param leases free it
   */
  protected DeviceStream(Leases leases) {
    this.leases = leases;
  }

  final Leases leases() {
    return leases;
  }

  /** The device that runs it. */
  public abstract Device device();

  /**
   * Waits until all that was launched so far has ended. An interruption does not end the wait,
   * since what was launched goes on, and the thread stays interrupted. {@code Communicator.abort}
   * from another thread ends it, and so does the operation's deadline. A virtual thread that waits
   * leaves its carrier to others.
   *
   * @throws NcclException the first error of an operation of this stream since the last call
   */
  public abstract void synchronize();

  /**
   * Waits until all that was launched so far has ended, but no longer than a while.
   *
   * @throws TimeoutException if it has not; the operations go on
   * @throws NcclException the first error of an operation of this stream since the last call
   */
  public abstract void synchronize(Duration patience);

  /** True if all launched work has ended; false while the stream is being captured. Never waits. */
  public abstract boolean isIdle();

  /**
   * Lets what was launched begin although nobody waits for it. Nothing to do where the device sees
   * to it by itself. Never waits.
   */
  public void startNow() {}

  /**
   * From now on launches do not wait for room, or no longer: of ranks that one thread drives, one
   * may wait for operations that the thread launches later. Earlier launches do not wait for them;
   * this call may wait for earlier launches. Begins and ends are counted. Nothing to do where the
   * device has its own ways.
   *
   * @param begins false to end it
   */
  public void grow(boolean begins) {}

  /** Launches the recording of an event: it happens when all launched before has ended. */
  public abstract void record(DeviceEvent event);

  /** Launches a wait: later launches run once the event's last recording has happened. */
  public abstract void await(DeviceEvent event);

  /**
   * Launches a copy between memories of the same size on this stream's device or the host.
   *
   * @throws InvalidArgumentException if the sizes differ
   * @throws InvalidUsageException for closed memory
   */
  public abstract void copy(DeviceMemory source, DeviceMemory target);

  /** Throws unless a copy can be made. */
  protected static void checkCopy(DeviceMemory source, DeviceMemory target) {
    Arguments.notNull(source, "memory to copy from");
    Arguments.notNull(target, "memory to copy to");
    if (source.size() != target.size()) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "a copy from %d to %d bytes".formatted(source.size(), target.size()),
          "pass slices of the same size");
    }
    source.checkOpen();
    target.checkOpen();
  }

  /** The stream's error after a host function threw. */
  protected static NcclException thrown(Throwable by) {
    return by instanceof NcclException ours
        ? ours
        : new InvalidUsageException(
            ErrorId.USER_FUNCTION,
            "a function that was launched into a stream threw " + by,
            "correct the function; its exception is the cause",
            by);
  }

  /** The error of a launch into a closed stream. */
  protected final InvalidUsageException closed() {
    return new InvalidUsageException(
        ErrorId.CLOSED,
        "a launch into a closed stream of " + device().name(),
        "close a stream after its last launch");
  }

  /** True if launches are recorded into a graph instead of run. */
  public boolean isCapturing() {
    return false;
  }

  /**
   * Launches a function that the host runs when all launched before has ended. It must not call
   * this library's operations.
   *
   * @param function what it throws becomes the stream's error, the cause of an {@link
   *     InvalidUsageException}
   */
  public abstract void launchHostFunction(Runnable function);

  /** Waits for what was launched, at most for the operations' deadlines, and frees the stream. */
  @Override
  public abstract void close();

  @Override
  public String toString() {
    return "a stream of " + device().name();
  }
}
