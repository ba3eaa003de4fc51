package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.plan.P2pTask;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.P2pWork;

/**
 * Sends and receives that are planned together. Usually they are those of an earlier group, which
 * are kept: then nothing is allocated. Owner: the thread that has entered the launcher.
 */
final class P2pTasks {
  private final List<P2pTask> tasks = new ArrayList<>();
  private Known[] known = new Known[2];

  /** The number of known calls, from the first on, that were planned last; 0 if others were. */
  private int planned;

  /** True if those that were planned last are a send and a receive, both with data. */
  private boolean isExchange;

  /** Calls that were compared; roughly, where several threads call. */
  private int calls;

  /** A valid call of an earlier group, and what it is planned as. */
  record Known(long shape, DeviceMemory buffer, long count, P2pTask task) {
    @HotPath
    @SuppressWarnings("ReferenceEquality")
    boolean is(long itsShape, DeviceMemory itsBuffer, long itsCount) {
      return shape == itsShape & count == itsCount & buffer == itsBuffer;
    }

    boolean sends() {
      return CallShape.isSend(shape);
    }
  }

  /**
   * True if a call is the one at its place in an earlier group, which was valid. Any thread may
   * ask: known calls do not change.
   */
  @HotPath
  boolean knows(int index, long shape, DeviceMemory buffer, long count) {
    calls++;
    long compared = (calls & CheckedCall.CHECKED - 1) == 0 ? ~count : count;
    Known[] all = known;
    Known before = index < all.length ? all[index] : null;
    return before != null && before.is(shape, buffer, compared);
  }

  /**
   * The known call at a place of an exchange, if a call is that one; else null. Any thread may ask;
   * {@link #launchAgain} looks again.
   */
  @HotPath
  Known ofExchange(int index, long shape, DeviceMemory buffer, long count) {
    Known before = isExchange && index < 2 ? known[index] : null;
    calls++;
    long compared = (calls & CheckedCall.CHECKED - 1) == 0 ? ~count : count;
    return before != null && before.is(shape, buffer, compared) ? before : null;
  }

  /** True if two known calls are the exchange that was planned last. */
  @HotPath
  @SuppressWarnings("ReferenceEquality")
  private boolean isPlanned(Known first, Known second) {
    return isExchange && known[0] == first && known[1] == second;
  }

  /**
   * Launches the exchange of two known calls by its plan.
   *
   * @return false, having done nothing, if it is not the exchange that was planned last, or if
   *     there are offers of windows to look for
   */
  @HotPath
  boolean launchAgain(
      Known first, Known second, DeviceStream stream, Planner planner, Launcher launcher) {
    if (!isPlanned(first, second) || planner.windows().hasOffers()) {
      return false;
    }
    launcher.launching(2);
    Known sends = first.sends() ? first : second;
    Known receives = first.sends() ? second : first;
    // With its buffers, so that the launch is refused if they have been freed.
    launcher.launchOther(
        planner.planAgain(),
        sends.buffer(),
        receives.buffer(),
        stream,
        first.shape(),
        first.count());
    launched(launcher, first.shape(), first.count(), stream);
    launched(launcher, second.shape(), second.count(), stream);
    return true;
  }

  /** Records a send or receive of a plan that was launched. */
  @HotPath
  static void launched(Launcher launcher, long shape, long count, DeviceStream stream) {
    if (count > 0) {
      launcher.single(CallShape.isSend(shape), CallShape.root(shape));
    }
    launcher.tell(shape, count, stream);
  }

  /** The tasks that have been put, to be looked at before the next are. */
  List<P2pTask> tasks() {
    return tasks;
  }

  /** Plans the tasks that have been put. */
  @HotPath
  KernelPlan plan(Planner planner) {
    KernelPlan plan = planner.plan(tasks);
    if (planner.windows().hasOffers()) {
      forget();
    } else {
      notePlanned();
    }
    return plan;
  }

  /** Notes that the tasks that have been put are planned. */
  void notePlanned() {
    planned = tasks.size();
    isExchange =
        planned == 2
            && known[0].sends() != known[1].sends()
            && hasData(known[0])
            && hasData(known[1]);
  }

  private static boolean hasData(Known call) {
    return call.count() > 0 && call.buffer() != null;
  }

  /** Notes that the planner has planned others since, or has offers of windows to look for. */
  void forget() {
    planned = 0;
    isExchange = false;
  }

  /** True if the first so many known calls are those that were planned last. */
  @HotPath
  boolean arePlanned(int n) {
    return n == planned && n > 0;
  }

  /** True if a known call has these arguments. */
  @HotPath
  boolean is(int index, long shape, DeviceMemory buffer, long count) {
    return known[index].is(shape, buffer, count);
  }

  /** Puts a task at its place, with the offer of the planner's windows; the first drops all. */
  @HotPath
  void put(int index, long shape, DeviceMemory buffer, long count, Planner planner) {
    put(
        index,
        shape,
        buffer,
        count,
        planner.windows().offer(buffer, CallShape.bytes(shape, count)));
  }

  /** Puts a task at its place, and keeps its call as known; the first drops all tasks. */
  @HotPath
  void put(int index, long shape, DeviceMemory buffer, long count, P2pWork.Offer offer) {
    boolean sends = CallShape.isSend(shape);
    int peer = CallShape.root(shape);
    long bytes = CallShape.bytes(shape, count);
    if (index == known.length
        || known[index] == null
        || !known[index].task().is(sends, peer, buffer, bytes, offer)) {
      replace(index, shape, buffer, count, offer);
    }
    if (index == 0) {
      tasks.clear();
    }
    tasks.add(known[index].task());
  }

  /** Replaces a known call of an earlier group by another. */
  private void replace(
      int index, long shape, DeviceMemory buffer, long count, P2pWork.Offer offer) {
    boolean sends = CallShape.isSend(shape);
    int peer = CallShape.root(shape);
    P2pTask task = new P2pTask(sends, peer, buffer, CallShape.bytes(shape, count), offer);
    forget();
    if (index == known.length) {
      known = Arrays.copyOf(known, 2 * index);
    }
    known[index] = new Known(shape, buffer, count, task);
  }
}
