package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.Device;

/**
 * A group's operations of one rank, by one communicator or by several that launch in one order.
 * Used again for later groups, as {@link Task}s are.
 */
final class Part implements Runnable {
  private final List<Share> shares = new ArrayList<>(1);
  private int used;
  private Object order;

  /** Who launches it; null where the caller does. */
  private LaunchThread on;

  /** A communicator's operations. */
  private static final class Share {
    RankQueue queue;
    final List<Task> tasks = new ArrayList<>(2);
  }

  /** Makes it that of another order, without operations. */
  void begin(Object newOrder) {
    order = newOrder;
  }

  Object order() {
    return order;
  }

  void add(Task task) {
    for (int s = 0; s < used; s++) {
      if (shares.get(s).queue == task.queue()) {
        shares.get(s).tasks.add(task);
        return;
      }
    }
    if (used == shares.size()) {
      shares.add(new Share());
    }
    Share share = shares.get(used++);
    share.queue = task.queue();
    share.tasks.add(task);
  }

  /** Keeps nothing of the operations. */
  void clear() {
    for (int s = 0; s < used; s++) {
      shares.get(s).queue = null;
      shares.get(s).tasks.clear();
    }
    used = 0;
    order = null;
    on = null;
  }

  Device device() {
    return shares.get(0).queue.device();
  }

  boolean isOnGpu() {
    return shares.get(0).queue.isOnGpu();
  }

  /**
   * Of ranks on one GPU none may have a kernel to load while another's runs: the driver would wait
   * for that one's end, and it for what is launched then.
   */
  void prepare() {
    for (int s = 0; s < used; s++) {
      shares.get(s).queue.prepare(shares.get(s).tasks);
    }
  }

  /** Also what is captured: that takes launches of any thread. */
  @Override
  public void run() {
    for (int s = 0; s < used; s++) {
      shares.get(s).queue.launch(shares.get(s).tasks);
    }
  }

  /** Has the rank's launch thread run it, if that is free. */
  void hand() {
    LaunchThread thread = shares.get(0).queue.launchThread();
    on = thread.give(this) ? thread : null;
  }

  /** Whether another thread runs it. */
  boolean isHanded() {
    return on != null;
  }

  /** Waits for that thread; what its launch threw, or null. */
  Throwable await() {
    return on.await();
  }
}
