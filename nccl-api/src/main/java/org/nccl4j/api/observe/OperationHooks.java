package org.nccl4j.api.observe;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;

/**
 * The listeners of one rank's operations. Without listeners an operation costs one read. Any thread
 * adds and removes hooks; the launching thread calls them.
 */
public final class OperationHooks implements AutoCloseable {
  private static final OperationHook[] NONE = {};

  /** Never changed, only replaced. */
  private volatile OperationHook[] hooks = NONE;

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

  /** True if a hook is added. */
  @HotPath
  public boolean areAny() {
    return hooks != NONE;
  }

  /** Operations are about to be launched, as {@link OperationHook#launching}. */
  @HotPath
  public void launching(int launches) {
    for (OperationHook hook : hooks) {
      hook.launching(launches);
    }
  }

  /** An operation has been launched. */
  @HotPath
  public void tell(String what, long count, DataType type, int root, DeviceStream stream) {
    for (OperationHook hook : hooks) {
      hook.launched(what, count, type, root, stream);
    }
  }

  /** Removes all. */
  @Override
  public synchronized void close() {
    for (OperationHook hook : hooks) {
      remove(hook);
    }
  }
}
