package org.nccl4j.api.init;

import java.time.Duration;
import java.util.function.BooleanSupplier;
import org.nccl4j.api.init.engine.Engine;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.support.Patience;

/** Waits until a rank's operations on a communicator have ended. Any thread. */
final class QuiesceWait {
  private static final long POLL_NANOS = 50_000;
  private static final Duration SETTLED = Duration.ofMillis(100);

  private final CommunicatorState state;

  QuiesceWait(CommunicatorState state) {
    this.state = state;
  }

  /**
   * True if there are operations that use a window. A device takes a while to say that it has
   * nothing to do.
   */
  boolean uses(RegisteredWindow window) {
    long last = window.lastUse();
    KernelCommunicator kernels = state.engine().kernels();
    return last > 0 && !Patience.until(() -> kernels.hasEnded(last) || kernels.isIdle(), SETTLED);
  }

  /** Waits until there are none; whether that is so within the time. */
  boolean await(Duration patience) {
    return awaitUnless(() -> false, patience);
  }

  /** Waits until there are none or a condition holds; whether one of them is so within the time. */
  boolean awaitUnless(BooleanSupplier over, Duration patience) {
    Engine engine = state.engine();
    return Patience.until(
        () ->
            over.getAsBoolean()
                || state.isSuspended()
                || engine.kernels().isIdle() && engine.resources().isIdle(),
        patience);
  }

  /** The same on a thread that may be interrupted: then it throws. */
  boolean awaitOrInterrupt(Duration patience) {
    long end = Patience.end(patience);
    while (!await(Duration.ofNanos(POLL_NANOS))) {
      if (Thread.currentThread().isInterrupted()) {
        throw new InvalidUsageException(
            ErrorId.INTERRUPTED,
            "rank %d's thread was interrupted while it waited for operations on communicator %s"
                .formatted(state.rank(), state.name()),
            "do not interrupt a thread that is creating a communicator");
      }
      if (System.nanoTime() - end >= 0) {
        return false;
      }
    }
    return true;
  }
}
