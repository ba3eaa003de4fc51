package org.nccl4j.device;

import java.time.Duration;

/**
 * A queue of operations that a device runs one after the other, in the order in which they were
 * launched. Any thread may call any method.
 *
 * <p>Methods that launch throw {@link InvalidArgumentException} for null, and {@link
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
   * Waits until all operations launched so far have ended. An interruption does not end the wait,
   * since the operations continue; the thread stays interrupted. {@code Communicator.abort} from
   * another thread ends it, and so does the operation's deadline. A waiting virtual thread releases
   * its carrier.
   *
   * @throws NcclException the first error of an operation of this stream since the last call
   */
  public abstract void synchronize();

  /**
   * Waits until all operations launched so far have ended, at most for a given time.
   *
   * @throws TimeoutException if they have not; they continue
   * @throws NcclException the first error of an operation of this stream since the last call
   */
  public abstract void synchronize(Duration timeout);

  /** True if all launched work has ended; false while the stream is being captured. Never waits. */
  public abstract boolean isIdle();

  /** True if it stands for the default stream of the thread that calls, whichever that is. */
  public boolean isOfCallingThread() {
    return false;
  }

  /**
   * Lets launched operations begin although no thread waits for them. Has no effect on devices that
   * start them by themselves. Never waits.
   */
  public void startNow() {}

  /**
   * Begins or ends a period in which launches do not wait for room in the queue: if one thread
   * drives several ranks, a rank may wait for operations that the thread launches later. This call
   * may wait for earlier launches. Begins and ends are counted. Has no effect on devices without a
   * bounded queue.
   *
   * @param begins false to end the period
   */
  public void grow(boolean begins) {}

  /** Launches the recording of an event: it is recorded when all earlier launches have ended. */
  public abstract void record(DeviceEvent event);

  /** Launches a wait: later launches run once the event has been recorded. */
  public abstract void await(DeviceEvent event);

  /**
   * Launches a copy between memories of the same size on this stream's device or the host.
   *
   * @throws InvalidArgumentException if the sizes differ
   * @throws InvalidUsageException for closed memory
   */
  public abstract void copy(DeviceMemory source, DeviceMemory target);

  /** Throws for null and for different sizes. */
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

  /** Returns the stream's error for an exception of a host function. */
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
   * Returns the number of the capture that launches are recorded into, the same for all streams of
   * a capture; 0 if they are not recorded.
   */
  public long captureNumber() {
    return 0;
  }

  /**
   * Launches a function that the host runs when all earlier launches have ended. It must not call
   * this library's operations.
   *
   * @param function its exception becomes the stream's error, as the cause of an {@link
   *     InvalidUsageException}
   */
  public abstract void launchHostFunction(Runnable function);

  /** Waits for launched operations, at most until their deadlines, and frees the stream. */
  @Override
  public abstract void close();

  @Override
  public String toString() {
    return "a stream of " + device().name();
  }
}
