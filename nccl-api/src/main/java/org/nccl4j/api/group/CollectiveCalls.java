package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidUsageException;
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

  /** Runs them all, and throws the first error once all have ended. */
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
    for (List<Runnable> calls : byRank.values()) {
      FutureTask<Void> task = new FutureTask<>(() -> calls.forEach(Runnable::run), null);
      Thread thread = new Thread(task, "nccl4j-meeting-" + tasks.size());
      thread.setDaemon(true);
      thread.start();
      tasks.add(task);
    }
    NcclException first = null;
    for (FutureTask<Void> task : tasks) {
      NcclException error = errorOf(task);
      first = first == null ? error : first;
    }
    if (first != null) {
      throw first.again();
    }
  }

  private static NcclException errorOf(FutureTask<Void> task) {
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
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return new InvalidUsageException(
          ErrorId.INTERRUPTED,
          "the thread was interrupted while its group waited for other ranks",
          "do not interrupt a thread that is ending a group",
          e);
    }
  }
}
