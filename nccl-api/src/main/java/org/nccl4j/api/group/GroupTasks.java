package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;

/**
 * The calls of a thread's group, and the parts in which they are launched. Its objects are used
 * again for the thread's later groups.
 */
final class GroupTasks {
  /** Tasks of larger groups are not kept. */
  private static final int MOST_KEPT = 1024;

  private final List<Task> tasks = new ArrayList<>();
  private final List<Part> parts = new ArrayList<>();
  private int nTasks;
  private int nParts;

  /** One more operation, to be set by the caller. */
  @HotPath
  Task next() {
    if (nTasks == tasks.size()) {
      tasks.add(new Task());
    }
    return tasks.get(nTasks++);
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
  void divide() {
    for (int t = 0; t < nTasks; t++) {
      Task task = tasks.get(t);
      part(task.queue().order()).add(task);
    }
  }

  /** There are few, so they are looked through. */
  private Part part(Object order) {
    for (int p = nParts - 1; p >= 0; p--) {
      if (parts.get(p).order() == order) {
        return parts.get(p);
      }
    }
    if (nParts == parts.size()) {
      parts.add(new Part());
    }
    Part found = parts.get(nParts++);
    found.begin(order);
    return found;
  }

  /**
   * Throws if two ranks of a communicator have operations in one stream: the first would wait there
   * for the second, which runs after it.
   */
  void checkStreams() {
    for (int p = 1; p < nParts; p++) {
      for (int q = 0; q < p; q++) {
        parts.get(q).checkStreams(parts.get(p));
      }
    }
  }

  /** Has the streams of the operations take any number of launches, or no longer. */
  void growStreams(boolean begins) {
    for (int t = 0; t < nTasks; t++) {
      tasks.get(t).stream().grow(begins);
    }
  }

  /** One thread drives ranks that wait for each other, so none of them can wait for it. */
  void startStreams() {
    for (int t = 0; t < nTasks; t++) {
      tasks.get(t).stream().startNow();
    }
  }

  int nParts() {
    return nParts;
  }

  Part part(int index) {
    return parts.get(index);
  }

  /** True if the operations are of several ranks. */
  boolean isOfSeveral() {
    for (int t = 1; t < nTasks; t++) {
      if (tasks.get(t).queue() != tasks.get(0).queue()) {
        return true;
      }
    }
    return false;
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
      tasks.subList(MOST_KEPT, tasks.size()).clear();
    }
  }
}
