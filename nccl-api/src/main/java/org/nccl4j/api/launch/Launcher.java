package org.nccl4j.api.launch;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.time.Duration;
import org.nccl4j.api.observe.NvtxRanges;
import org.nccl4j.api.observe.OperationHooks;
import org.nccl4j.api.observe.flight.FlightRecorder;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicator.GroupLaunch;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.support.Patience;

/**
 * Launches one communicator's operations into streams. Any thread may launch, one at a time: it
 * enters, plans and launches, and leaves, so that the order of the calls is the order of the
 * operations.
 */
public final class Launcher {
  private static final VarHandle INSIDE;
  private static final VarHandle LAST;
  private static final VarHandle REFUSAL;

  static {
    try {
      MethodHandles.Lookup lookup = MethodHandles.lookup();
      INSIDE = lookup.findVarHandle(Launcher.class, "inside", int.class);
      LAST = lookup.findVarHandle(Launcher.class, "last", KernelPlan.class);
      REFUSAL = lookup.findVarHandle(Launcher.class, "refusal", NcclException.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  /** The shape of a launch that is no operation of the user's. */
  public static final long UNNAMED = FlightRecorder.UNNAMED;

  /** Looks at a thread that launches, before the waiting thread sleeps between two looks. */
  private static final int LOOKS = 10_000;

  private static final long SLEEP_NANOS = 50_000;

  private final KernelCommunicator kernels;

  /** Longest wait of a call for another thread's launch. */
  private final Duration deadline;

  private OperationHooks hooks = new OperationHooks();
  private FlightRecorder log = FlightRecorder.unread();

  /** Null where no tool listens. */
  private NvtxRanges ranges;

  /** The plan that was launched last, or null. */
  private volatile KernelPlan last;

  /** 1 while a thread plans and launches, else 0. */
  private volatile int inside;

  /** The error of operations that are refused; null while none is. Written by any thread. */
  private volatile NcclException refusal;

  /** The launcher whose turn is taken: the parent's where connections are shared. */
  private final Launcher order;

  /**
   * Launches kernels of one communicator.
   *
   * @param deadline how long a call waits for another thread's launch
   */
  public Launcher(KernelCommunicator kernels, Duration deadline) {
    this.kernels = kernels;
    this.deadline = deadline;
    this.order = this;
  }

  /** Launches kernels of a communicator that shares its parent's connections, in one order. */
  public Launcher(KernelCommunicator kernels, Duration deadline, Launcher parent) {
    this.kernels = kernels;
    this.deadline = deadline;
    this.order = parent.order;
  }

  /**
   * Begins planning and launching; to be followed by {@link #leave()} whatever happens.
   *
   * @throws NcclException if the communicator has failed or is closed, or if another thread has
   *     been launching until the deadline; then there is nothing to leave
   */
  @HotPath
  public void enter() {
    if (!INSIDE.compareAndSet(order, 0, 1)) {
      awaitTurn();
    }
    if (isRefused()) {
      leave();
      throw refusal();
    }
  }

  /**
   * Throws what {@link #enter} would throw of a communicator that has failed or is closed.
   *
   * @throws NcclException the failure
   */
  @HotPath
  public void checkAccepts() {
    if (isRefused()) {
      throw refusal();
    }
  }

  /** False if the communicator has failed or is closed. */
  @HotPath
  public boolean accepts() {
    return !isRefused();
  }

  private void awaitTurn() {
    long end = Patience.end(deadline);
    for (int looks = 0; !INSIDE.compareAndSet(order, 0, 1); looks++) {
      if (isRefused()) {
        throw refusal();
      }
      if (looks < LOOKS) {
        Thread.yield();
      } else if (System.nanoTime() - end < 0) {
        Patience.sleep(SLEEP_NANOS);
      } else {
        throw new TimeoutException(
            ("an operation has waited %s while another thread launches operations of this"
                    + " communicator or of one that shares its connections")
                .formatted(Patience.text(deadline)),
            "synchronize the stream of that thread more often, or allow more time"
                + " (CommunicatorConfig.withOperationTimeout or NCCL4J_TIMEOUT)");
      }
    }
  }

  private boolean isRefused() {
    return refusal != null || kernels.failure() != null;
  }

  private NcclException refusal() {
    NcclException refused = refusal;
    return refused != null ? refused.again() : kernels.failure().again();
  }

  /** Ends planning and launching. */
  @HotPath
  public void leave() {
    INSIDE.setRelease(order, 0);
  }

  /** Gives plans back. A communicator that has failed frees them when it is closed. */
  public void discard(Runnable plans) {
    try {
      enter();
    } catch (NcclException failed) {
      return;
    }
    try {
      plans.run();
    } finally {
      leave();
    }
  }

  /** Sets the recorder of launches from now on. */
  public void record(FlightRecorder newLog) {
    log = newLog;
  }

  /** Has each launch from now on in a range; before the first launch. Null: in none. */
  public void mark(NvtxRanges newRanges) {
    ranges = newRanges;
  }

  /**
   * Launches the plan of an operation that all ranks call; between enter and leave.
   *
   * @param shape of the operation, for the record
   * @param count of elements, for the record
   */
  @HotPath
  public void launchCollective(
      KernelPlan plan,
      DeviceMemory send,
      DeviceMemory recv,
      DeviceStream stream,
      long shape,
      long count) {
    launch(plan, send, recv, stream, shape);
    LAST.setOpaque(this, plan);
    log.collective(shape, count);
  }

  /** Launches any other plan; as {@link #launchCollective}. */
  @HotPath
  public void launchOther(
      KernelPlan plan,
      DeviceMemory send,
      DeviceMemory recv,
      DeviceStream stream,
      long shape,
      long count) {
    launch(plan, send, recv, stream, shape);
    LAST.setOpaque(this, plan);
    log.other(shape, count);
  }

  /** Returns what launches a group's operations together, or null. Between enter and leave. */
  public GroupLaunch groupLaunch() {
    return kernels.groupLaunch();
  }

  /**
   * Launches some of the operations that were added to a group's launch; between enter and leave.
   * {@link #launched} follows for each.
   *
   * @param from the first
   * @param to behind the last
   * @param shape of the first, for tools
   */
  public void launchGroup(GroupLaunch group, int from, int to, long shape) {
    if (ranges != null) {
      ranges.push(shape);
    }
    try {
      LAST.setOpaque(this, group.launch(from, to));
    } finally {
      if (ranges != null) {
        ranges.pop();
      }
    }
  }

  /** Records an operation of a group's launch that all ranks call. */
  public void launched(long shape, long count) {
    log.collective(shape, count);
  }

  @HotPath
  private void launch(
      KernelPlan plan, DeviceMemory send, DeviceMemory recv, DeviceStream stream, long shape) {
    if (ranges == null) {
      kernels.launch(plan, send, recv, stream);
      return;
    }
    ranges.push(shape);
    try {
      kernels.launch(plan, send, recv, stream);
    } finally {
      ranges.pop();
    }
  }

  /** Blocks of the last launch's largest kernel on a GPU; else 0. Any thread. */
  public int lastBlocks() {
    KernelPlan launched = last;
    return launched == null ? 0 : launched.blocks();
  }

  /**
   * Records that the launch has a send to a rank, or a receive from it; called between enter and
   * leave.
   */
  @HotPath
  public void single(boolean sends, int peer) {
    log.single(sends, peer);
  }

  /** Records that the next launch waits in a stream until all ranks have reached it. */
  public void waitsInOrder(DeviceStream stream) {
    log.waitsInOrder(System.identityHashCode(stream), System.currentTimeMillis());
  }

  /** Records that all ranks have reached the oldest of these launches, or that it failed. */
  public void metInOrder() {
    log.metInOrder(System.currentTimeMillis());
  }

  /** The same for all that launch in one order, since they share connections. */
  public Object order() {
    return order;
  }

  /** Returns the hooks that see the operations that are launched. */
  public OperationHooks hooks() {
    return hooks;
  }

  /** Tells those of another launcher instead; before its first launch. */
  public void adopt(OperationHooks others) {
    hooks.close();
    hooks = others;
  }

  /**
   * Tells the hooks that operations are about to be launched; {@link #tell} follows for each.
   *
   * @param launches of them or of their parts
   */
  @HotPath
  public void launching(int launches) {
    if (hooks.areAny()) {
      hooks.launching(launches);
    }
  }

  /** Reports a launched operation to the hooks, if they are to know of it. */
  @HotPath
  public void tell(long shape, long count, DeviceStream stream) {
    if (hooks.tells()) {
      tell(
          CallShape.operation(shape).key(),
          count,
          CallShape.type(shape),
          CallShape.root(shape),
          stream);
    }
  }

  /** Reports a launched operation to the hooks. */
  @HotPath
  public void tell(String what, long count, DataType type, int root, DeviceStream stream) {
    if (hooks.tells()) {
      hooks.tell(what, count, type, root, stream);
    }
  }

  /**
   * Refuses all further operations.
   *
   * @param name of the communicator
   * @return as {@link #refuse}
   */
  public boolean close(String name, Duration patience) {
    return refuse(
        new InvalidUsageException(
            ErrorId.CLOSED,
            "an operation is called on closed communicator " + name,
            "close a communicator after its last operation"),
        patience);
  }

  /**
   * Refuses all further operations with an error, unless they are refused for good already.
   *
   * @param error of id CLOSED: for good
   * @param patience how long to wait for a thread that is launching one
   * @return whether all that was not refused is in its stream
   */
  public boolean refuse(NcclException error, Duration patience) {
    NcclException old = refusal;
    while ((old == null || old.id() != ErrorId.CLOSED || error.id() == ErrorId.CLOSED)
        && !REFUSAL.compareAndSet(this, old, error)) {
      old = refusal;
    }
    return awaitLaunched(patience);
  }

  /** Waits for a thread that is launching an operation; returns whether none is, in time. */
  public boolean awaitLaunched(Duration patience) {
    boolean outside = Patience.until(() -> INSIDE.compareAndSet(order, 0, 1), patience);
    if (outside) {
      leave();
    }
    return outside;
  }

  /** Accepts operations again, unless they are refused with another error than this by now. */
  public void accept(NcclException own) {
    REFUSAL.compareAndSet(this, own, null);
  }
}
