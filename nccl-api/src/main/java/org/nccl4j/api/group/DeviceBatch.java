package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;

/**
 * A group's operations of one rank, on one communicator or on several that launch in one order.
 * Reused for later groups, like {@link Task}s.
 */
final class DeviceBatch implements Runnable {
  private final List<Share> shares = new ArrayList<>(List.of(new Share())); // the first ahead
  private int used;
  private Object order;

  /** Thread that launches this part; null where the caller does. */
  private LaunchThread on;

  /**
   * Operations of one communicator that are launched together.
   *
   * @param one the only one of them that is launched, after those before it; -1 for all
   */
  record Unit(GroupLauncher launcher, Task.Row tasks, int one) implements Runnable {
    @Override
    public void run() {
      if (one >= 0) {
        launcher.launchOneOf(tasks, one);
      } else if (!tasks.isEmpty()) {
        launcher.launch(tasks, tasks.size());
      }
    }
  }

  /** A communicator's operations. */
  private static final class Share {
    GroupLauncher launcher;
    final Task.Row tasks = new Task.Row(2);

    /** Those of operations that have elements; there are few. */
    final List<DeviceStream> streams = new ArrayList<>(1);

    void add(Task task) {
      tasks.add(task);
      if (task.count() > 0 && !streams.contains(task.stream())) {
        streams.add(task.stream());
      }
    }

    /** Adds a unit for each collective, and one for the sends and receives, which may be none. */
    void addUnits(List<Unit> units) {
      Task.Row singles = new Task.Row(2);
      Task.Row collectives = new Task.Row(2);
      for (int t = 0; t < tasks.size(); t++) {
        Task task = tasks.get(t);
        (task.isSingle() ? singles : collectives).add(task);
      }
      for (int t = 0; t < collectives.size(); ) {
        Task.Row batch = new Task.Row(2);
        for (int u = t, end = t + launcher.together(collectives, t); u < end; u++) {
          batch.add(collectives.get(u));
        }
        for (int one = 0; one < batch.size(); one++) {
          units.add(new Unit(launcher, batch, batch.size() > 1 ? one : -1));
        }
        t += batch.size();
      }
      units.add(new Unit(launcher, singles, -1));
    }

    void checkStreams(Share other) {
      if (!launcher.isOfSameCommunicator(other.launcher)) {
        return;
      }
      for (int s = 0; s < streams.size(); s++) {
        if (other.streams.contains(streams.get(s))) {
          throw launcher.oneStream(other.launcher, streams.get(s));
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
      if (shares.get(s).launcher == task.launcher()) {
        shares.get(s).add(task);
        return;
      }
    }
    if (used == shares.size()) {
      shares.add(new Share());
    }
    Share share = shares.get(used++);
    share.launcher = task.launcher();
    share.add(task);
  }

  /** Keeps nothing of the operations. */
  void clear() {
    for (int s = 0; s < used; s++) {
      shares.get(s).launcher = null;
      shares.get(s).tasks.clear();
      shares.get(s).streams.clear();
    }
    used = 0;
    order = null;
    on = null;
  }

  /** Throws if a rank of one of the same communicators has operations in the same stream. */
  void checkStreams(DeviceBatch other) {
    for (int s = 0; s < used; s++) {
      for (int o = 0; o < other.used; o++) {
        shares.get(s).checkStreams(other.shares.get(o));
      }
    }
  }

  /** Throws if the streams of one of the communicators are not all in the same capture. */
  void checkCaptures() {
    for (int s = 0; s < used; s++) {
      Task.Row tasks = shares.get(s).tasks;
      shares.get(s).launcher.checkCaptures(tasks, tasks.size());
    }
  }

  /** Throws if one of the communicators has failed or is closed. */
  @HotPath
  void checkAccepts() {
    for (int s = 0; s < used; s++) {
      shares.get(s).launcher.checkAccepts();
    }
  }

  Device device() {
    return shares.get(0).launcher.device();
  }

  boolean isOnGpu() {
    return shares.get(0).launcher.isOnGpu();
  }

  /** True if another thread than the caller may launch it, and its streams mean the same there. */
  boolean mayBeHanded() {
    if (!isOnGpu()) {
      return false;
    }
    for (int s = 0; s < used; s++) {
      List<DeviceStream> streams = shares.get(s).streams;
      for (int i = 0; i < streams.size(); i++) {
        if (streams.get(i).isOfCallingThread()) {
          return false;
        }
      }
    }
    return true;
  }

  /**
   * Prepares the launch. No kernel may still have to be loaded while another rank's kernel runs on
   * the same GPU: the driver would wait for that kernel, which waits for the one to be launched.
   */
  void prepare() {
    for (int s = 0; s < used; s++) {
      shares.get(s).launcher.prepare(shares.get(s).tasks);
    }
  }

  /** Also what is captured: that takes launches of any thread. */
  @Override
  public void run() {
    Throwable failure = null;
    for (int s = 0; s < used; s++) {
      try {
        Task.Row tasks = shares.get(s).tasks;
        shares.get(s).launcher.launch(tasks, tasks.size());
      } catch (RuntimeException | Error e) {
        failure = with(failure, e);
      }
    }
    rethrow(failure);
  }

  /**
   * Returns the units that ranks on one GPU launch in turns: as many on all of a family's ranks.
   */
  List<Unit> units() {
    List<Unit> units = new ArrayList<>();
    for (int s = 0; s < used; s++) {
      shares.get(s).addUnits(units);
    }
    return units;
  }

  /** Has the rank's launch thread run it, if that is free. */
  void hand() {
    LaunchThread thread = shares.get(0).launcher.launchThread();
    on = thread.give(this) ? thread : null;
  }

  /** True if another thread runs it. */
  boolean isHanded() {
    return on != null;
  }

  /** Waits for that thread; returns the exception of its launch, or null. */
  Throwable await() {
    return on.await();
  }

  /** Throws what a launch threw, if it did. */
  static void rethrow(Throwable failure) {
    if (failure instanceof RuntimeException e) {
      throw e;
    } else if (failure instanceof Error e) {
      throw e;
    }
  }

  /** The first error, with the next beside it. */
  static Throwable with(Throwable first, Throwable next) {
    if (first != null && next != null && first != next) {
      first.addSuppressed(next);
    }
    return first == null ? next : first;
  }
}
