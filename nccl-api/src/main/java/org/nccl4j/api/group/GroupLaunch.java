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
  private GroupLaunch() {}

  /** Launches; the first error with the others, after everything that can be launched has been. */
  static void of(Map<RankQueue, List<Task>> byRank) {
    if (byRank.size() == 1 || !canGoTogether(byRank)) {
      byRank.forEach(RankQueue::launch);
    } else {
      together(byRank);
    }
  }

  /** What is captured is launched by who captures: there time does not matter, threads may. */
  private static boolean canGoTogether(Map<RankQueue, List<Task>> byRank) {
    if (Runtime.getRuntime().availableProcessors() < 2 * byRank.size()) {
      return false;
    }
    for (Map.Entry<RankQueue, List<Task>> rank : byRank.entrySet()) {
      if (!rank.getKey().isOnGpu()) {
        return false;
      }
      for (Task task : rank.getValue()) {
        if (task.stream().isCapturing()) {
          return false;
        }
      }
    }
    return true;
  }

  private static void together(Map<RankQueue, List<Task>> byRank) {
    List<LaunchThread> busy = new ArrayList<>(byRank.size());
    List<Map.Entry<RankQueue, List<Task>>> own = new ArrayList<>(byRank.size());
    for (Map.Entry<RankQueue, List<Task>> rank : byRank.entrySet()) {
      LaunchThread thread = own.isEmpty() ? null : rank.getKey().launchThread();
      if (thread != null && thread.give(() -> rank.getKey().launch(rank.getValue()))) {
        busy.add(thread);
      } else {
        own.add(rank);
      }
    }
    Throwable failure = null;
    for (Map.Entry<RankQueue, List<Task>> rank : own) {
      try {
        rank.getKey().launch(rank.getValue());
      } catch (RuntimeException | Error e) {
        failure = with(failure, e);
      }
    }
    for (LaunchThread thread : busy) {
      failure = with(failure, thread.await());
    }
    if (failure instanceof RuntimeException e) {
      throw e;
    } else if (failure instanceof Error e) {
      throw e;
    }
  }

  private static Throwable with(Throwable first, Throwable next) {
    if (first != null && next != null) {
      first.addSuppressed(next);
    }
    return first == null ? next : first;
  }
}
