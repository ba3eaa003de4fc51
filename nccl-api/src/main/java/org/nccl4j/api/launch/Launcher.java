package org.nccl4j.api.launch;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelPlan;

/**
 * One communicator's way into streams. Any thread may launch, one at a time: it enters, plans and
 * launches, and leaves, so that the order of the calls is the order of the operations.
 */
public final class Launcher {
  private static final VarHandle INSIDE;

  static {
    try {
      INSIDE = MethodHandles.lookup().findVarHandle(Launcher.class, "inside", int.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final KernelCommunicator kernels;

  /** 1 while a thread plans and launches, else 0. */
  private volatile int inside;

  private volatile boolean closed;

  /** A way to the kernels of one communicator. */
  public Launcher(KernelCommunicator kernels) {
    this.kernels = kernels;
  }

  /**
   * Begins planning and launching; to be followed by {@link #leave()} whatever happens.
   *
   * @throws NcclException if the communicator has failed or is closed; then there is nothing to
   *     leave
   */
  @HotPath
  public void enter() {
    while (!INSIDE.compareAndSet(this, 0, 1)) {
      Thread.yield();
    }
    if (closed || kernels.failure() != null) {
      leave();
      throw refusal();
    }
  }

  private NcclException refusal() {
    NcclException failure = kernels.failure();
    if (failure != null && !closed) {
      return failure.again();
    }
    return new InvalidUsageException(
        "an operation is called on a closed communicator",
        "close a communicator after its last operation");
  }

  /** Ends planning and launching. */
  @HotPath
  public void leave() {
    INSIDE.setRelease(this, 0);
  }

  /** Launches a plan; between enter and leave. */
  @HotPath
  public void launch(KernelPlan plan, DeviceMemory send, DeviceMemory recv, DeviceStream stream) {
    kernels.launch(plan, send, recv, stream);
  }

  /** Refuses all further operations. */
  public void close() {
    closed = true;
  }
}
