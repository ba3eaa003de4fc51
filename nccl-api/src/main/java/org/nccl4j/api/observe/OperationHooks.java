package org.nccl4j.api.observe;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;

/**
 * The listeners of one rank's operations. Without listeners an operation costs one read, and one
 * that no listener wants costs a few. Any thread adds and removes hooks; the launching thread calls
 * them.
 */
public final class OperationHooks implements AutoCloseable {
  private static final OperationHook[] NONE = {};

  private static final long SETTLED_NANOS = TimeUnit.SECONDS.toNanos(1);

  /** Never changed, only replaced. */
  private volatile OperationHook[] hooks = NONE;

  // The launching thread's own.

  /** The hooks that said last which operations they want. */
  private OperationHook[] asked = NONE;

  /** Operations from then on that none of them wants. */
  private int unwanted;

  /** Of these, those that are not launched yet. */
  private int left;

  private boolean isTold;

  /** Adds a hook. */
  public synchronized void add(OperationHook hook) {
    OperationHook[] more = Arrays.copyOf(hooks, hooks.length + 1);
    more[hooks.length] = hook;
    hooks = more;
  }

  /** Removes a hook and closes it; does nothing if it was not added. */
  public synchronized void remove(OperationHook hook) {
    List<OperationHook> left = new ArrayList<>(List.of(hooks));
    if (left.remove(hook)) {
      hooks = left.toArray(NONE);
      hook.close();
    }
  }

  /** A hook wants other operations than it said. Any thread. */
  synchronized void askAnew() {
    if (hooks != NONE) {
      hooks = hooks.clone();
    }
  }

  /** True if a hook is added. */
  @HotPath
  public boolean areAny() {
    return hooks != NONE;
  }

  /** Operations are about to be launched, as {@link OperationHook#launching}. */
  @HotPath
  public void launching(int launches) {
    if (left > 0 && hooks == asked && launches == 1) {
      left--;
    } else {
      ask(launches);
    }
  }

  /** Apart, so that the other branch becomes a part of each launch's code. */
  private void ask(int launches) {
    OperationHook[] all = hooks;
    if (isTold && launches == 1) {
      unwanted = unwanted(all);
      left = unwanted;
      asked = all;
      if (left > 0) {
        left--;
        isTold = false;
        return;
      }
    }
    int untold = unwanted - left;
    unwanted = 0;
    left = 0;
    isTold = true;
    for (OperationHook hook : all) {
      hook.launching(launches, untold);
    }
  }

  private static int unwanted(OperationHook[] all) {
    int least = Integer.MAX_VALUE;
    for (OperationHook hook : all) {
      least = Math.min(least, hook.unwanted());
    }
    return least;
  }

  /** True if a hook wants the operations that {@link #launching} was called for. */
  @HotPath
  public boolean tells() {
    return isTold;
  }

  /** An operation has been launched that the hooks are told of. */
  @HotPath
  public void tell(String what, long count, DataType type, int root, DeviceStream stream) {
    OperationHook[] all = hooks;
    isTold = all != NONE;
    for (OperationHook hook : all) {
      hook.launched(what, count, type, root, stream);
    }
  }

  /**
   * Waits, a second at most for all hooks together, until the ends of operations have been told to
   * them.
   *
   * @param all of all operations, which have ended; else of those that have ended by now
   */
  public void settle(boolean all) {
    long end = System.nanoTime() + SETTLED_NANOS;
    for (OperationHook hook : hooks) {
      hook.settle(all, end);
    }
  }

  /** Removes all. */
  @Override
  public void close() {
    for (OperationHook hook : hooks) {
      remove(hook);
    }
  }
}
