package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.plan.P2pTask;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.kernel.P2pWork;

/**
 * Sends and receives that are planned together. Usually they are those of an earlier group, which
 * are kept: then nothing is allocated. Owner: the thread that has entered the launcher.
 */
final class P2pTasks {
  private final List<P2pTask> works = new ArrayList<>();
  private final List<P2pTask> known = new ArrayList<>();

  /** The tasks that have been put, to be looked at before the next are. */
  List<P2pTask> works() {
    return works;
  }

  /** Puts one, by its place among them; the first drops those before. */
  @HotPath
  void put(
      int index, boolean sends, int peer, DeviceMemory buffer, long bytes, P2pWork.Offer offer) {
    if (index == known.size() || !known.get(index).is(sends, peer, buffer, bytes, offer)) {
      keep(index, sends, peer, buffer, bytes, offer);
    }
    if (index == 0) {
      works.clear();
    }
    works.add(known.get(index));
  }

  /** Keeps one of another group than that before. */
  private void keep(
      int index, boolean sends, int peer, DeviceMemory buffer, long bytes, P2pWork.Offer offer) {
    P2pTask task = new P2pTask(sends, peer, buffer, bytes, offer);
    if (index == known.size()) {
      known.add(task);
    } else {
      known.set(index, task);
    }
  }
}
