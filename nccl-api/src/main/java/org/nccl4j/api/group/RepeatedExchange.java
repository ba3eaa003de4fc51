package org.nccl4j.api.group;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HeldLeases;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.Leases;
import org.nccl4j.device.kernel.CallShape;

/**
 * A group's send and receive of one rank in one stream, as far as they are the calls of the group
 * before: they need no tasks and no counted leases, and are launched by the plan of that group. Any
 * other call, or another plan, makes them tasks. Owner: the thread of the group.
 */
final class RepeatedExchange {
  /** Null before the thread's first exchange that comes again. */
  private HeldLeases held;

  private GroupLauncher launcher;
  private DeviceStream stream;
  private P2pTasks.Known first;
  private P2pTasks.Known second;

  private int size;

  /** True during a launch, which may run host functions with groups of their own. */
  private boolean launches;

  /** Calls so far. */
  @HotPath
  int size() {
    return size;
  }

  /** Takes a call, if it is the next of the exchange, and valid still; whether it did. */
  @HotPath
  boolean takes(
      GroupLauncher its, long shape, DeviceMemory buffer, long count, DeviceStream itsStream) {
    P2pTasks.Known call =
        mayGoOn(its, itsStream) ? its.singles().ofExchange(size, shape, buffer, count) : null;
    if (call == null || !buffer.isOpen()) {
      return false;
    }
    add(its, call, itsStream);
    return true;
  }

  /** True if a rank's call in a stream may be the next. */
  @HotPath
  @SuppressWarnings("ReferenceEquality")
  private boolean mayGoOn(GroupLauncher next, DeviceStream nextStream) {
    return size == 0 ? !launches : size == 1 && next == launcher && nextStream == stream;
  }

  @HotPath
  private void add(GroupLauncher its, P2pTasks.Known call, DeviceStream itsStream) {
    if (size == 0) {
      launcher = its;
      stream = itsStream;
      first = call;
      if (held == null) {
        makeHeld();
      }
      held.hold(Leases.of(call.buffer()), Leases.of(itsStream));
    } else {
      second = call;
      held.holdAlso(Leases.of(call.buffer()));
    }
    size++;
  }

  private void makeHeld() {
    held = new HeldLeases();
  }

  /** The operation that is held for a stream; null if there is none. */
  @SuppressWarnings("ReferenceEquality")
  String heldFor(DeviceStream asked) {
    return size == 0 || asked != stream
        ? null
        : CallShape.operation(first.shape()).key() + " of " + launcher.who();
  }

  /** Launches the calls; null if there are none. */
  GroupLauncher launcher() {
    return launcher;
  }

  DeviceStream stream() {
    return stream;
  }

  /** One of the calls. */
  P2pTasks.Known call(int index) {
    return index == 0 ? first : second;
  }

  /**
   * Launches the exchange, if it is whole.
   *
   * @return false, having done nothing, if it is not, or if another has been planned since
   */
  @HotPath
  boolean launch() {
    if (size < 2) {
      return false;
    }
    int calls = size;
    boolean launched = true;
    size = 0; // host functions that run meanwhile see a new group
    launches = true;
    try {
      launched = launcher.launchAgain(first, second, stream);
    } finally {
      launches = false;
      if (launched) {
        clear();
      } else {
        size = calls;
      }
    }
    return launched;
  }

  /** Keeps nothing of the calls. */
  @HotPath
  void clear() {
    if (launcher != null && !launches) {
      held.release();
      launcher = null;
      stream = null;
      first = null;
      second = null;
      size = 0;
    }
  }
}
