package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;

/**
 * The calls of a thread's group, and their launch. Its objects are reused for the thread's later
 * groups.
 *
 * <p>Operations of several ranks that one thread drives are launched by a thread for each on GPUs,
 * as long as there are processors for them: a launch takes a thread about as long as a small
 * operation takes a GPU, and one device after the other would keep the first waiting for the last.
 * Communicators that share connections are launched by one, in the order of their first calls,
 * which is the same on all ranks. A large group never waits for room in a stream: streams of the
 * host grow, and GPUs' parts are launched by a thread for each.
 *
 * <p>Ranks that share a GPU are launched by the calling thread in turns, one operation each: a GPU
 * has few queues for its streams, and a stream that waits for an operation's end blocks all streams
 * of its queue. So all ranks' kernels of an operation come before the first such wait.
 */
final class GroupTasks {
  /** Tasks of larger groups are not kept. */
  private static final int MOST_KEPT = 1024;

  /** To ask takes longer than to launch. */
  private static final int PROCESSORS = Runtime.getRuntime().availableProcessors();

  /**
   * Operations from which on a group may fill a stream, which holds about a thousand launches: a
   * part that waits for room waits for operations of the parts behind it. An operation is at most
   * five launches, a comparison of calls apart.
   */
  private static final int LARGE = 100;

  private final Task.Row tasks = new Task.Row(2);

  /**
   * The first is made ahead, so that a warm program's first group of several ranks loads no class.
   */
  private final List<DeviceBatch> parts = new ArrayList<>(List.of(new DeviceBatch()));

  private int nTasks;
  private int nParts;

  /** True if all operations are of one rank on one communicator: then there are no parts. */
  private boolean isOfOne;

  /** True if all operations are in one stream. */
  private boolean isInOneStream;

  /** True if the operation that was added last has a stream, and so a lease of it or another's. */
  @HotPath
  boolean leases(DeviceStream stream) {
    return nTasks > 0 && tasks.get(nTasks - 1).stream() == stream;
  }

  /** One more operation, to be set by the caller. */
  @HotPath
  Task next() {
    if (nTasks == tasks.size()) {
      grow();
    }
    return tasks.get(nTasks++);
  }

  /** Makes room for an operation more than any group before has had. */
  private void grow() {
    tasks.add(new Task());
  }

  int size() {
    return nTasks;
  }

  Task task(int index) {
    return tasks.get(index);
  }

  /** The first operation of a stream; null if there is none. */
  Task heldFor(DeviceStream stream) {
    for (int t = 0; t < nTasks; t++) {
      if (tasks.get(t).stream() == stream) {
        return tasks.get(t);
      }
    }
    return null;
  }

  /** Divides the operations among parts, in the order of their first calls. */
  @HotPath
  void divide() {
    boolean one = true;
    boolean inOneStream = true;
    for (int t = 1; t < nTasks; t++) {
      Task task = tasks.get(t);
      one &= task.launcher() == tasks.get(0).launcher();
      inOneStream &= !task.leasesStream();
    }
    isOfOne = one;
    isInOneStream = inOneStream;
    if (!one) {
      divideAmongParts();
    }
  }

  private void divideAmongParts() {
    for (int t = 0; t < nTasks; t++) {
      Task task = tasks.get(t);
      part(task.launcher().order()).add(task);
    }
  }

  /** There are few, so they are looked through. */
  private DeviceBatch part(Object order) {
    for (int p = nParts - 1; p >= 0; p--) {
      if (parts.get(p).order() == order) {
        return parts.get(p);
      }
    }
    if (nParts == parts.size()) {
      parts.add(new DeviceBatch());
    }
    DeviceBatch found = parts.get(nParts++);
    found.begin(order);
    return found;
  }

  /**
   * Throws if two ranks of a communicator have operations in one stream: the first would wait there
   * for the second, which runs after it. Throws if the streams of a rank are not all in the same
   * capture, or in none.
   */
  void checkStreams() {
    if (isOfOne && isInOneStream) {
      return;
    }
    if (isOfOne) {
      tasks.get(0).launcher().checkCaptures(tasks, nTasks);
    }
    for (int p = 0; p < nParts; p++) {
      parts.get(p).checkCaptures();
    }
    for (int p = 1; p < nParts; p++) {
      for (int q = 0; q < p; q++) {
        parts.get(q).checkStreams(parts.get(p));
      }
    }
  }

  /** Has the streams of the operations take any number of launches, or no longer. */
  private void growStreams(boolean begins) {
    for (int t = 0; t < nTasks; t++) {
      tasks.get(t).stream().grow(begins);
    }
  }

  /** One thread drives ranks that wait for each other, so none of them can wait for it. */
  private void startStreams() {
    for (int t = 0; t < nTasks; t++) {
      tasks.get(t).stream().startNow();
    }
  }

  /**
   * Launches the operations, which are divided; throws the first error with the others, after
   * everything that can be launched has been.
   */
  @HotPath
  void launch() {
    if (!isOfOne) {
      launchSeveral();
    } else if (nTasks > 0) {
      tasks.get(0).launcher().launch(tasks, nTasks);
    }
  }

  /** Throws if the operations, which are divided, are of a communicator that takes none. */
  void checkAccepts() {
    if (isOfOne && nTasks > 0) {
      tasks.get(0).launcher().checkAccepts();
    }
    for (int p = 0; p < nParts; p++) {
      parts.get(p).checkAccepts();
    }
  }

  private void launchSeveral() {
    checkAccepts(); // one that cannot be launched leaves out all
    boolean large = nTasks >= LARGE;
    if (large) {
      growStreams(true);
    }
    try {
      DeviceBatch.rethrow(launchParts(large));
    } finally {
      if (large) {
        growStreams(false);
      }
      startStreams();
    }
  }

  /** Launches all parts; returns the error that the launch threw, or null. */
  private Throwable launchParts(boolean large) {
    boolean together = nParts > 1 && (large || PROCESSORS >= 2 * nParts);
    boolean crowded = false;
    for (int p = 0; p < nParts; p++) {
      together &= parts.get(p).mayBeHanded();
      for (int q = 0; q < p; q++) {
        crowded |= parts.get(p).isOnGpu() && parts.get(p).device() == parts.get(q).device();
      }
    }
    if (crowded) {
      return inTurns();
    }
    if (together) {
      return together();
    }
    Throwable failure = null;
    for (int p = 0; p < nParts; p++) {
      failure = DeviceBatch.with(failure, launch(parts.get(p)));
    }
    return failure;
  }

  /** Prepares all parts, then launches the first unit of each, the second of each, and so on. */
  private Throwable inTurns() {
    List<Iterator<DeviceBatch.Unit>> turns = new ArrayList<>();
    Throwable failure = null;
    for (int p = 0; p < nParts; p++) {
      DeviceBatch part = parts.get(p);
      failure =
          DeviceBatch.with(
              failure,
              launch(
                  () -> {
                    part.prepare();
                    turns.add(part.units().iterator());
                  }));
    }
    while (turns.stream().anyMatch(Iterator::hasNext)) {
      for (Iterator<DeviceBatch.Unit> units : turns) {
        failure = DeviceBatch.with(failure, units.hasNext() ? launch(units.next()) : null);
      }
    }
    return failure;
  }

  /** The caller takes the last: the last device that a thread has called for is often current. */
  private Throwable together() {
    int own = nParts - 1;
    Throwable failure = null;
    for (int p = 0; p < own; p++) {
      failure = DeviceBatch.with(failure, launch(parts.get(p)::hand));
    }
    for (int p = own; p >= 0; p--) {
      failure = DeviceBatch.with(failure, parts.get(p).isHanded() ? null : launch(parts.get(p)));
    }
    for (int p = 0; p < own; p++) {
      failure = DeviceBatch.with(failure, parts.get(p).isHanded() ? parts.get(p).await() : null);
    }
    return failure;
  }

  /** Runs a launch; returns its error, or null. */
  private static Throwable launch(Runnable part) {
    try {
      part.run();
      return null;
    } catch (RuntimeException | Error e) {
      return e;
    }
  }

  /** Keeps nothing of the operations. */
  void clear() {
    for (int t = 0; t < nTasks; t++) {
      tasks.get(t).clear();
    }
    for (int p = 0; p < nParts; p++) {
      parts.get(p).clear();
    }
    nTasks = 0;
    nParts = 0;
    if (tasks.size() > MOST_KEPT) {
      tasks.cut(MOST_KEPT);
    }
  }
}
