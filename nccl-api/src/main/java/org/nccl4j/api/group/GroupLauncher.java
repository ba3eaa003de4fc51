package org.nccl4j.api.group;

import java.util.LinkedHashSet;
import java.util.Set;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.kernel.KernelCommunicator.GroupLaunch;
import org.nccl4j.device.kernel.KernelPlan;

/**
 * Launches one rank's operations at the end of their group: collectives first, together where the
 * device can, then sends and receives, which one plan has. Sends and receives that come again are
 * launched by the plan of the group before.
 */
final class GroupLauncher {
  private final CommunicatorRank rank;
  private final SteppedReductions steps;
  private final CollectiveLaunch alone;
  private final LaunchThread.OnDemand launchThread;

  private Planner planner;
  private Launcher launcher;

  /** False if each collective is launched by itself, since it is compared or measured. */
  private boolean gathers;

  private final P2pTasks singles = new P2pTasks();

  /** Those of the group that is launched now. */
  private final Task.Row collectives = new Task.Row(2);

  /** Launches one checked operation that is neither a send nor a receive, as outside groups. */
  interface CollectiveLaunch {
    /** The thread is in the launcher. */
    void launch(Task collective);
  }

  GroupLauncher(CommunicatorRank rank, SteppedReductions steps, CollectiveLaunch alone) {
    this.rank = rank;
    this.steps = steps;
    this.alone = alone;
    this.launchThread =
        new LaunchThread.OnDemand(
            "nccl4j-launch-" + rank.name() + "-" + rank.rank(), rank.device()::useOnThisThread);
  }

  /**
   * Sets what plans and launches from now on: before the first call, and after a suspension.
   *
   * @param together whether several collectives may be launched together
   */
  void attach(Planner newPlanner, Launcher newLauncher, boolean together) {
    planner = newPlanner;
    launcher = newLauncher;
    gathers = together;
    singles.forget();
  }

  /** Ends its thread: at once if it is idle, else once what it launches is launched. */
  void close(boolean idle) {
    launchThread.end(idle);
  }

  /** A thread that launches for this rank beside the caller. */
  LaunchThread launchThread() {
    return launchThread.get();
  }

  /** The sends and receives that were planned last. */
  P2pTasks singles() {
    return singles;
  }

  /** The same for communicators whose operations are in one order. */
  Object order() {
    return launcher.order();
  }

  /** Returns the device on which the operations run. */
  Device device() {
    return rank.device();
  }

  /** True if the operations run on a GPU. */
  boolean isOnGpu() {
    return rank.isOnGpu();
  }

  /** The rank and its communicator, for messages. */
  String who() {
    return rank.who();
  }

  /** True if another launches for another rank of the same communicator. */
  boolean isOfSameCommunicator(GroupLauncher other) {
    return rank.communicator() == other.rank.communicator() && rank.rank() != other.rank.rank();
  }

  /** An error of operations of two ranks in one stream. */
  InvalidArgumentException oneStream(GroupLauncher other, DeviceStream stream) {
    return StreamErrors.ofTwoRanks(rank.name(), rank.rank(), other.rank.rank(), stream);
  }

  /** Throws if the communicator has failed or is closed. */
  @HotPath
  void checkAccepts() {
    launcher.checkAccepts();
  }

  /**
   * Refuses operations of a group of this rank whose streams are not all in one capture, or in
   * none: the graph would have a part of the group alone, and its launches would repeat that part
   * without the rest. Asks the driver nothing where there is one stream alone.
   *
   * @param n the first so many tasks are the group's
   * @throws InvalidUsageException if they are not
   */
  @HotPath
  void checkCaptures(Task.Row tasks, int n) {
    Task first = null;
    DeviceStream known = null; // to be in the first stream's capture
    for (int t = 0; t < n; t++) {
      Task task = tasks.get(t);
      if (task.count() == 0 && !task.isSingle()) {
        continue; // launches nothing; streams of empty messages are waited for
      }
      if (first == null) {
        first = task;
      } else if (task.stream() != first.stream() && task.stream() != known) {
        checkCapture(first, task);
        known = task.stream();
      }
    }
  }

  private void checkCapture(Task first, Task later) {
    String where = who() + " on " + device().name();
    StreamErrors.checkCaptures(
        where, first.operation(), first.stream(), later.operation(), later.stream());
  }

  /**
   * Launches an exchange that comes again.
   *
   * @return false, having done nothing, if it is no longer the one that was planned last
   */
  @HotPath
  boolean launchAgain(P2pTasks.Known first, P2pTasks.Known second, DeviceStream stream) {
    launcher.enter();
    try {
      return singles.launchAgain(first, second, stream, planner, launcher);
    } finally {
      launcher.leave();
    }
  }

  /** Makes the plans of a group's operations of this rank, which its launch then finds. */
  void prepare(Task.Row tasks) {
    launcher.enter();
    try {
      int n = 0;
      for (int t = 0; t < tasks.size(); t++) {
        Task task = tasks.get(t);
        if (task.isSingle()) {
          put(n++, task);
        } else if (task.count() > 0) {
          prepare(task);
        }
      }
      if (n > 0) {
        singles.plan(planner);
      }
    } finally {
      launcher.leave();
    }
  }

  private void prepare(Task task) {
    if (steps.prepare(task.shape(), task.count(), task.operator(), task.residual())) {
      return;
    }
    if (task.operator() != null) {
      planner.plan(task.shape(), task.count(), task.operator());
    } else {
      planner.plan(task.shape(), task.send(), task.recv(), task.count());
    }
  }

  /** Notes a send or receive of those that are planned together. */
  private void put(int index, Task task) {
    singles.put(index, task.shape(), task.ofSingle(), task.count(), planner);
  }

  /** Predicted microseconds. */
  double predict(Task task) {
    return task.count() == 0 ? 0 : steps.predict(task.shape(), task.count(), task.operator());
  }

  /**
   * Launches a group's operations of this rank: collectives first, then sends and receives.
   *
   * @param n the first so many tasks are the group's
   */
  void launch(Task.Row tasks, int n) {
    launcher.enter();
    try {
      if (singles.arePlanned(n) && areRepeated(tasks, n) && !planner.windows().hasOffers()) {
        launcher.launching(n);
        launchSingles(planner.planAgain(), tasks, n);
      } else if (n == 1 && !tasks.get(0).isSingle()) {
        alone.launch(tasks.get(0));
      } else {
        launchOthers(tasks, n);
      }
    } finally {
      launcher.leave();
    }
  }

  /** True if operations are the sends and receives that were planned last, all in one stream. */
  @HotPath
  private boolean areRepeated(Task.Row tasks, int n) {
    boolean same = true;
    for (int t = 0; t < n && same; t++) {
      Task task = tasks.get(t);
      same =
          singles.is(t, task.shape(), task.ofSingle(), task.count())
              && task.stream() == tasks.get(0).stream();
    }
    return same;
  }

  /** Launches operations that are neither a single collective nor a group that comes again. */
  private void launchOthers(Task.Row tasks, int n) {
    try {
      for (int t = 0; t < n; t++) {
        if (!tasks.get(t).isSingle()) {
          collectives.add(tasks.get(t));
        }
      }
      launchCollectives();
      if (collectives.size() < n) {
        launchTogether(tasks, n);
      }
    } finally {
      collectives.clear();
    }
  }

  private void launchCollectives() {
    for (int t = 0; t < collectives.size(); t++) {
      Task task = collectives.get(t);
      int together = gather(collectives, t);
      if (together > 1) {
        launchGathered(collectives, t, 0, together);
        t += together - 1;
      } else {
        alone.launch(task);
      }
    }
  }

  /**
   * Launches one of the operations that {@link #together} says are launched together, of which
   * those before it have been launched. So ranks on one GPU launch them in turns.
   */
  void launchOneOf(Task.Row batch, int index) {
    launcher.enter();
    try {
      gather(batch, 0);
      launchGathered(batch, 0, index, index + 1);
    } finally {
      launcher.leave();
    }
  }

  /**
   * Returns how many collectives of a group, from one of them on, are launched together: the same
   * on all ranks, and at least 1. Sends and receives, which ranks have differently, are not among
   * them.
   */
  int together(Task.Row tasks, int first) {
    launcher.enter();
    try {
      int n = gather(tasks, first);
      if (n > 1) {
        launcher.groupLaunch().clear();
      }
      return n;
    } finally {
      launcher.leave();
    }
  }

  /**
   * Adds collectives of a group, from one of them on, to the group's launch. Forgets a single one,
   * which is launched by itself.
   *
   * @return how many are launched together
   */
  private int gather(Task.Row tasks, int first) {
    GroupLaunch group = tasks.size() > 1 && gathers ? launcher.groupLaunch() : null;
    if (group == null) {
      return 1;
    }
    boolean several = false;
    try {
      int t = first;
      while (t < tasks.size() && isAdded(group, tasks.get(t))) {
        t++;
      }
      several = t - first > 1;
      return Math.max(1, t - first);
    } finally {
      if (!several) {
        group.clear();
      }
    }
  }

  private boolean isAdded(GroupLaunch group, Task task) {
    return task.count() > 0
        && task.operator() == null
        && !steps.isQuantised(task.shape())
        && group.add(
            planner.plan(task.shape(), task.send(), task.recv(), task.count()),
            task.send(),
            task.recv(),
            task.stream());
  }

  /** Launches some of the operations that were gathered, from a first task on. */
  private void launchGathered(Task.Row tasks, int first, int from, int to) {
    GroupLaunch group = launcher.groupLaunch();
    launcher.launching(to - from);
    try {
      launcher.launchGroup(group, from, to, tasks.get(first + from).shape());
    } finally {
      group.clear();
    }
    for (int t = first + from; t < first + to; t++) {
      Task task = tasks.get(t);
      launcher.launched(task.shape(), task.count());
      launcher.tell(task.shape(), task.count(), task.stream());
    }
  }

  /** Sends and receives of several streams run in the first; the others wait before and after. */
  private void launchTogether(Task.Row tasks, int n) {
    Task one = null;
    int nSingles = 0;
    Set<DeviceStream> others = Set.of();
    for (int t = 0; t < n; t++) {
      Task task = tasks.get(t);
      if (task.isSingle()) {
        one = one == null ? task : one;
        put(nSingles++, task);
        if (task.stream() != one.stream()) {
          others = others.isEmpty() ? new LinkedHashSet<>() : others;
          others.add(task.stream());
        }
      }
    }
    DeviceStream first = one.stream();
    launcher.launching(nSingles);
    if (!others.isEmpty()) {
      others.forEach(other -> await(first, other));
    }
    launchSingles(singles.plan(planner), tasks, n);
    if (!others.isEmpty()) {
      others.forEach(other -> await(other, first));
    }
  }

  /** Launches the plan of the sends and receives among a group's operations. */
  private void launchSingles(KernelPlan plan, Task.Row tasks, int n) {
    Task one = null;
    for (int t = 0; t < n && one == null; t++) {
      one = tasks.get(t).isSingle() ? tasks.get(t) : null;
    }
    launcher.launchOther(plan, null, null, one.stream(), one.shape(), one.count());
    for (int t = 0; t < n; t++) {
      Task task = tasks.get(t);
      if (task.isSingle()) {
        P2pTasks.launched(launcher, task.shape(), task.count(), one.stream());
      }
    }
  }

  private void await(DeviceStream waiting, DeviceStream awaited) {
    try (DeviceEvent event = rank.device().createEvent()) {
      awaited.record(event);
      waiting.await(event);
    }
  }
}
