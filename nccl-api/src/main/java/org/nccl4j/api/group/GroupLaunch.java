package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Launches a group's operations of several ranks that one thread drives. A launch takes a thread
 * about as long as a small operation takes a GPU, and one device after the other would keep the
 * first waiting for the last; so on GPUs each rank has a thread that launches, as long as there are
 * processors for them.
 */
final class GroupLaunch {
  /** To ask takes longer than to launch. */
  private static final int PROCESSORS = Runtime.getRuntime().availableProcessors();

  private GroupLaunch() {}

  /** Launches; the first error with the others, after everything that can be launched has been. */
  static void of(Map<RankQueue, List<Task>> byRank) {
    boolean together = byRank.size() > 1 && PROCESSORS >= 2 * byRank.size();
    for (RankQueue rank : byRank.keySet()) {
      together &= rank.isOnGpu();
    }
    if (together) {
      together(byRank);
    } else {
      byRank.forEach(RankQueue::launch);
    }
  }

  /** One rank's operations. */
  private static final class Part implements Runnable {
    final RankQueue rank;
    final List<Task> tasks;
    LaunchThread on; // null where the caller launches
    boolean left; // written by the launching thread, read when that is done

    Part(RankQueue rank, List<Task> tasks) {
      this.rank = rank;
      this.tasks = tasks;
    }

    /** What is captured is left to who captures: there time does not matter, threads may. */
    @Override
    public void run() {
      for (Task task : tasks) {
        left |= task.stream().isCapturing();
      }
      if (!left) {
        rank.launch(tasks);
      }
    }
  }

  private static void together(Map<RankQueue, List<Task>> byRank) {
    List<Part> parts = new ArrayList<>(byRank.size());
    for (Map.Entry<RankQueue, List<Task>> entry : byRank.entrySet()) {
      Part part = new Part(entry.getKey(), entry.getValue());
      LaunchThread thread = parts.isEmpty() ? null : part.rank.launchThread();
      part.on = thread != null && thread.give(part) ? thread : null;
      parts.add(part);
    }
    Throwable failure = null;
    for (Part part : parts) {
      failure = with(failure, part.on == null ? launch(part) : null);
    }
    for (Part part : parts) {
      failure = with(failure, part.on == null ? null : part.on.await());
      failure = with(failure, part.left ? launch(part) : null);
    }
    if (failure instanceof RuntimeException e) {
      throw e;
    } else if (failure instanceof Error e) {
      throw e;
    }
  }

  private static Throwable launch(Part part) {
    try {
      part.rank.launch(part.tasks);
      return null;
    } catch (RuntimeException | Error e) {
      return e;
    }
  }

  private static Throwable with(Throwable first, Throwable next) {
    if (first != null && next != null && first != next) {
      first.addSuppressed(next);
    }
    return first == null ? next : first;
  }
}
