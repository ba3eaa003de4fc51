package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Launches a group's operations of several ranks that one thread drives. A launch takes a thread
 * about as long as a small operation takes a GPU, and one device after the other would keep the
 * first waiting for the last; so on GPUs each rank has a thread that launches, as long as there are
 * processors for them. Communicators that share connections are launched by one, in the order of
 * their first calls, which is the same on all ranks.
 */
final class GroupLaunch {
  /** To ask takes longer than to launch. */
  private static final int PROCESSORS = Runtime.getRuntime().availableProcessors();

  private GroupLaunch() {}

  /** Launches; the first error with the others, after everything that can be launched has been. */
  static void of(Map<RankQueue, List<Task>> byRank) {
    List<Part> parts = parts(byRank);
    boolean together = parts.size() > 1 && PROCESSORS >= 2 * parts.size();
    for (RankQueue rank : byRank.keySet()) {
      together &= rank.isOnGpu();
    }
    if (together) {
      together(parts);
    } else {
      byRank.forEach(RankQueue::launch);
    }
  }

  /** Operations of one rank, by one communicator or by several that launch in one order. */
  private static final class Part implements Runnable {
    final Map<RankQueue, List<Task>> byRank = new LinkedHashMap<>();
    LaunchThread on; // null where the caller launches
    boolean left; // written by the launching thread, read when that is done

    LaunchThread launchThread() {
      return byRank.keySet().iterator().next().launchThread();
    }

    void launch() {
      byRank.forEach(RankQueue::launch);
    }

    /** What is captured is left to who captures: there time does not matter, threads may. */
    @Override
    public void run() {
      for (List<Task> tasks : byRank.values()) {
        for (Task task : tasks) {
          left |= task.stream().isCapturing();
        }
      }
      if (!left) {
        launch();
      }
    }
  }

  private static List<Part> parts(Map<RankQueue, List<Task>> byRank) {
    Map<Object, Part> byOrder = new IdentityHashMap<>();
    List<Part> parts = new ArrayList<>(byRank.size());
    byRank.forEach(
        (rank, tasks) -> {
          Part part = byOrder.get(rank.order());
          if (part == null) {
            part = new Part();
            byOrder.put(rank.order(), part);
            parts.add(part);
          }
          part.byRank.put(rank, tasks);
        });
    return parts;
  }

  private static void together(List<Part> parts) {
    for (Part part : parts) {
      LaunchThread thread = part == parts.get(0) ? null : part.launchThread();
      part.on = thread != null && thread.give(part) ? thread : null;
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
      part.launch();
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
