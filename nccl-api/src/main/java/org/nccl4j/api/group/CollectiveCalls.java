package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;

/**
 * Runs calls that wait for other ranks: those of one rank in their order, and each rank of several
 * on a thread of its own.
 */
final class CollectiveCalls {
  /**
   * Something that waits for other ranks.
   *
   * @param whose one object for each rank of each communicator
   */
  record Meeting(Object whose, Runnable call) {}

  private CollectiveCalls() {}

  /**
   * Runs them all, and throws the first error once all have ended. An interruption is passed on to
   * them.
   */
  static void run(List<Meeting> meetings) {
    Map<Object, List<Runnable>> byRank = new IdentityHashMap<>();
    for (Meeting meeting : meetings) {
      byRank.computeIfAbsent(meeting.whose, none -> new ArrayList<>()).add(meeting.call);
    }
    if (byRank.size() < 2) {
      meetings.forEach(meeting -> meeting.call.run());
      return;
    }
    List<FutureTask<Void>> tasks = new ArrayList<>();
    List<Thread> threads = new ArrayList<>();
    for (List<Runnable> calls : byRank.values()) {
      FutureTask<Void> task = new FutureTask<>(() -> calls.forEach(Runnable::run), null);
      Thread thread = new Thread(task, "nccl4j-meeting-" + tasks.size());
      thread.setDaemon(true);
      thread.start();
      tasks.add(task);
      threads.add(thread);
    }
    NcclException first = firstError(tasks, threads);
    if (first != null) {
      throw first.again();
    }
  }

  /** Waits until all have ended: the caller may then free what they used. */
  private static NcclException firstError(List<FutureTask<Void>> tasks, List<Thread> threads) {
    NcclException first = null;
    boolean interrupted = false;
    for (int at = 0; at < tasks.size(); ) {
      try {
        NcclException error = errorOf(tasks.get(at));
        first = first == null ? error : first;
        at++;
      } catch (InterruptedException e) {
        interrupted = true;
        threads.forEach(Thread::interrupt);
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
    return first;
  }

  private static NcclException errorOf(FutureTask<Void> task) throws InterruptedException {
    try {
      task.get();
      return null;
    } catch (ExecutionException e) {
      return e.getCause() instanceof NcclException nccl
          ? nccl
          : new InternalErrorException(
              "a call in a group failed unexpectedly (" + e.getCause() + ")",
              "report this with the stack trace",
              e.getCause());
    }
  }
}
