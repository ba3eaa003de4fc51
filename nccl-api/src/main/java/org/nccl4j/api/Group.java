package org.nccl4j.api;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.nccl4j.api.group.GroupScope;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.DeviceStream;

/**
 * Launches calls together. The calls between {@link #start()} and {@link #end()} on one thread are
 * launched together, their sends and receives progress together, and one thread can drive several
 * ranks. Groups nest; the outermost end launches.
 *
 * <p>Collectives of one communicator take effect in the order of their calls. On GPUs, small ones
 * that do not use each other's results may run at the same time, so all ranks must have the same
 * collectives in a group.
 *
 * <p>A group launches all of its operations or none. If a call in it throws, or a group inside it
 * throws, the outermost end throws that first error, even if the program has caught it. The
 * thread's next group is independent of it.
 */
public final class Group {
  private Group() {}

  /**
   * Runs calls as a group. If they throw, no call of the outermost group is launched, and its end
   * throws too.
   *
   * @param calls operations of any communicators of this process
   */
  public static void run(Runnable calls) {
    Arguments.notNull(calls, "calls of the group");
    GroupScope.run(calls);
  }

  /**
   * Runs calls as a group. Does not wait for the operations. Not inside another group, which would
   * launch them later.
   *
   * @return completes when the operations of all given streams have ended; exceptionally if
   *     launching failed. The streams report errors of operations.
   */
  public static CompletableFuture<Void> runAsync(Runnable calls, DeviceStream... streams) {
    CompletableFuture<?>[] ends;
    try {
      for (DeviceStream stream : Arguments.notNull(streams, "streams")) {
        Arguments.notNull(stream, "stream");
      }
      ends = new CompletableFuture<?>[streams.length];
      GroupScope.refuseInner("Group.runAsync");
      run(calls);
      for (int s = 0; s < streams.length; s++) {
        CompletableFuture<Void> end = new CompletableFuture<>();
        streams[s].launchHostFunction(() -> end.complete(null));
        streams[s].startNow();
        ends[s] = end;
      }
    } catch (RuntimeException e) {
      return CompletableFuture.failedFuture(e);
    }
    return CompletableFuture.allOf(ends);
  }

  /**
   * Predicts the time of calls without launching them.
   *
   * @return the predicted time of the slowest rank, without one-sided operations
   * @throws org.nccl4j.device.InvalidUsageException for registrations of windows, and inside
   *     another group
   */
  public static Duration simulate(Runnable calls) {
    Arguments.notNull(calls, "calls of the group");
    return Duration.ofNanos(Math.round(GroupScope.simulate(calls) * 1000));
  }

  /**
   * Ends a group that {@link #start()} began, predicts the time of its calls, and launches nothing.
   *
   * @return the predicted time of the slowest rank, without one-sided operations
   * @throws org.nccl4j.device.InvalidUsageException without a start, inside another group, and for
   *     a group in which a window was registered or deregistered; then the group stays open
   * @throws org.nccl4j.device.NcclException the first error of a call in the group
   */
  public static Duration simulateEnd() {
    return Duration.ofNanos(Math.round(GroupScope.simulateEnd() * 1000));
  }

  /** Returns the number of groups that are open on this thread, each in the one before. */
  public static int depth() {
    return GroupScope.levels();
  }

  /**
   * Returns the number of operations that this thread's group has kept for its end; 0 outside
   * groups.
   */
  public static int operations() {
    return GroupScope.operations();
  }

  /** Begins a group on this thread. */
  public static void start() {
    GroupScope.start();
  }

  /**
   * Ends a group. The outermost end launches the calls: puts, signals and waits first, then
   * collectives, then sends and receives.
   *
   * @throws org.nccl4j.device.InvalidUsageException without a start
   * @throws org.nccl4j.device.InvalidArgumentException if two ranks of one communicator have
   *     operations in one stream: the first would wait for the second forever
   * @throws org.nccl4j.device.NcclException the first error of a call in the group; then nothing
   *     was launched. Or the first error of a launch, after all other launches
   */
  public static void end() {
    GroupScope.end();
  }
}
