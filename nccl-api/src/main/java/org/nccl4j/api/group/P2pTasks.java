package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.nccl4j.api.plan.P2pTask;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.P2pWork;

/**
 * Sends and receives that are planned together. Usually they are those of an earlier group, which
 * are kept: then nothing is allocated. Owner: the thread that has entered the launcher.
 */
final class P2pTasks {
  private final List<P2pTask> works = new ArrayList<>();
  private Known[] known = new Known[2];

  /** The tasks that were planned last are the first so many known ones; 0 if others are known. */
  private int planned;

  /** Calls that were compared; roughly, where several threads call. */
  private int calls;

  /** A valid call of an earlier group, and what it is planned as. */
  private record Known(long shape, DeviceMemory buffer, long count, P2pTask task) {
    @HotPath
    @SuppressWarnings("ReferenceEquality")
    boolean is(long itsShape, DeviceMemory itsBuffer, long itsCount) {
      return shape == itsShape & count == itsCount & buffer == itsBuffer;
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

  /** The tasks that have been put, to be looked at before the next are. */
  List<P2pTask> works() {
    return works;
  }

  /** Notes that the tasks that have been put are planned. */
  void plan() {
    planned = works.size();
  }

  /** Notes that the planner has planned others since, or has offers of windows to look for. */
  void forget() {
    planned = 0;
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

  /** Puts one, by its place among them; the first drops those before. */
  @HotPath
  void put(int index, long shape, DeviceMemory buffer, long count, P2pWork.Offer offer) {
    boolean sends = CallShape.isSend(shape);
    int peer = CallShape.root(shape);
    long bytes = CallShape.bytes(shape, count);
    if (index == known.length
        || known[index] == null
        || !known[index].task().is(sends, peer, buffer, bytes, offer)) {
      keep(index, shape, buffer, count, offer);
    }
    if (index == 0) {
      works.clear();
    }
    works.add(known[index].task());
  }

  /** Keeps one of another group than that before. */
  private void keep(int index, long shape, DeviceMemory buffer, long count, P2pWork.Offer offer) {
    boolean sends = CallShape.isSend(shape);
    int peer = CallShape.root(shape);
    P2pTask task = new P2pTask(sends, peer, buffer, CallShape.bytes(shape, count), offer);
    planned = 0;
    if (index == known.length) {
      known = Arrays.copyOf(known, 2 * index);
    }
    known[index] = new Known(shape, buffer, count, task);
  }
}
