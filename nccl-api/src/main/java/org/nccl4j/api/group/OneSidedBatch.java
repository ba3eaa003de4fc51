package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;

/**
 * The puts, signals and waits of a group, in the order of their calls, whose objects later groups
 * use again. Owned by the thread of the group.
 */
final class OneSidedBatch {
  private final List<OneSidedCall> calls = new ArrayList<>();
  private int size;

  /** The object of the next call, to be set and then kept. */
  @HotPath
  OneSidedCall next() {
    return size < calls.size() ? calls.get(size) : add();
  }

  private OneSidedCall add() {
    OneSidedCall more = new OneSidedCall();
    calls.add(more);
    return more;
  }

  /** Keeps the call that was set last, whose leases have begun. */
  @HotPath
  void keep() {
    size++;
  }

  @HotPath
  int size() {
    return size;
  }

  /** A call for a stream; null if there is none. */
  OneSidedCall heldFor(DeviceStream stream) {
    return calls.stream()
        .limit(size)
        .filter(each -> each.stream() == stream)
        .findFirst()
        .orElse(null);
  }

  /**
   * Looks at what may have changed since the calls.
   *
   * @throws org.nccl4j.device.NcclException if one cannot be launched
   */
  @HotPath
  void check() {
    for (int each = 0; each < size; each++) {
      calls.get(each).check();
    }
  }

  /** Launches one of them; returns its error, or null. */
  @HotPath
  Throwable launch(int each) {
    try {
      calls.get(each).launch();
      return null;
    } catch (RuntimeException | Error e) {
      return e;
    }
  }

  /** Starts the streams of all: the thread may drive ranks that wait. */
  @HotPath
  void startStreams() {
    for (int each = 0; each < size; each++) {
      calls.get(each).stream().startNow();
    }
  }

  /** Ends the leases, and keeps nothing of the calls. */
  @HotPath
  void clear() {
    for (int each = 0; each < size; each++) {
      OneSidedCall call = calls.get(each);
      call.end();
      call.clear();
    }
    size = 0;
  }
}
