package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceStream;

/**
 * A group's operations of one rank, by one communicator or by several that launch in one order.
 * Used again for later groups, as {@link Task}s are.
 */
final class Part implements Runnable {
  private final List<Share> shares = new ArrayList<>(1);
  private int used;
  private Object order;

  /** Thread that launches this part; null where the caller does. */
  private LaunchThread on;

  /** A communicator's operations. */
  private static final class Share {
    OperationDispatcher queue;
    final List<Task> tasks = new ArrayList<>(2);

    /** Those of operations that have elements; there are few. */
    final List<DeviceStream> streams = new ArrayList<>(1);

    void add(Task task) {
      tasks.add(task);
      if (task.count() > 0 && !streams.contains(task.stream())) {
        streams.add(task.stream());
      }
    }

    /** A unit for each collective, and one for the sends and receives, if there are any. */
    int units() {
      return collectives() + 1;
    }

    private int collectives() {
      int n = 0;
      for (Task task : tasks) {
        n += task.isSingle() ? 0 : 1;
      }
      return n;
    }

    /** The operations of a unit, which are launched together. */
    List<Task> unit(int index) {
      boolean single = index == collectives();
      List<Task> those = tasks.stream().filter(task -> task.isSingle() == single).toList();
      return single ? those : List.of(those.get(index));
    }

    void checkStreams(Share other) {
      if (!queue.isOfSameCommunicator(other.queue)) {
        return;
      }
      for (int s = 0; s < streams.size(); s++) {
        if (other.streams.contains(streams.get(s))) {
          throw queue.oneStream(other.queue, streams.get(s));
        }
      }
    }
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
        shares.get(s).add(task);
        return;
      }
    }
    if (used == shares.size()) {
      shares.add(new Share());
    }
    Share share = shares.get(used++);
    share.queue = task.queue();
    share.add(task);
  }

  /** Keeps nothing of the operations. */
  void clear() {
    for (int s = 0; s < used; s++) {
      shares.get(s).queue = null;
      shares.get(s).tasks.clear();
      shares.get(s).streams.clear();
    }
    used = 0;
    order = null;
    on = null;
  }

  /** Throws if a rank of one of the same communicators has operations in the same stream. */
  void checkStreams(Part other) {
    for (int s = 0; s < used; s++) {
      for (int o = 0; o < other.used; o++) {
        shares.get(s).checkStreams(other.shares.get(o));
      }
    }
  }

  Device device() {
    return shares.get(0).queue.device();
  }

  boolean isOnGpu() {
    return shares.get(0).queue.isOnGpu();
  }

  /**
   * Prepares the launch. No kernel may still have to be loaded while another rank's kernel runs on
   * the same GPU: the driver would wait for that kernel, which waits for the one to be launched.
   */
  void prepare() {
    for (int s = 0; s < used; s++) {
      shares.get(s).queue.prepare(shares.get(s).tasks);
    }
  }

  /** Also what is captured: that takes launches of any thread. */
  @Override
  public void run() {
    Throwable failure = null;
    for (int s = 0; s < used; s++) {
      try {
        shares.get(s).queue.launch(shares.get(s).tasks);
      } catch (RuntimeException | Error e) {
        failure = GroupLaunch.with(failure, e);
      }
    }
    GroupLaunch.rethrow(failure);
  }

  /** Units that ranks on one GPU launch in turns: the same in all ranks of a communicator. */
  int units() {
    int n = 0;
    for (int s = 0; s < used; s++) {
      n += shares.get(s).units();
    }
    return n;
  }

  /** Launches a unit, or nothing where there are fewer; what the launch threw, or null. */
  Throwable launch(int unit) {
    int left = unit;
    for (int s = 0; s < used; s++) {
      Share share = shares.get(s);
      if (left < share.units()) {
        List<Task> tasks = share.unit(left);
        try {
          if (!tasks.isEmpty()) {
            share.queue.launch(tasks);
          }
          return null;
        } catch (RuntimeException | Error e) {
          return e;
        }
      }
      left -= share.units();
    }
    return null;
  }

  /** Has the rank's launch thread run it, if that is free. */
  void hand() {
    LaunchThread thread = shares.get(0).queue.launchThread();
    on = thread.give(this) ? thread : null;
  }

  /** True if another thread runs it. */
  boolean isHanded() {
    return on != null;
  }

  /** Waits for that thread; what its launch threw, or null. */
  Throwable await() {
    return on.await();
  }
}
