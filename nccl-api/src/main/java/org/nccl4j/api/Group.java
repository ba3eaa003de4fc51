package org.nccl4j.api;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.nccl4j.api.group.Groups;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.Given;

/**
 * Calls that belong together: those made between {@link #start()} and {@link #end()} on one thread
 * are launched together, sends and receives among them progress together, and one thread can drive
 * several ranks. Groups nest; the outermost end launches.
 *
 * <p>A group launches all of its operations or none: once an operation's call in it, or a group
 * inside it, has thrown, the outermost end throws that first error, also where the program has
 * caught it. The thread's next group begins anew.
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
    Given.notNull(calls, "calls of the group");
    Groups.run(calls);
  }

  /**
   * Runs calls as a group, without waiting for the operations.
   *
   * @return done when the operations of all the streams that were used have ended; with the error
   *     if launching failed. Errors of operations come out of their streams.
   */
  public static CompletableFuture<Void> runAsync(Runnable calls, DeviceStream... streams) {
    CompletableFuture<?>[] ends;
    try {
      for (DeviceStream stream : Given.notNull(streams, "streams")) {
        Given.notNull(stream, "stream");
      }
      ends = new CompletableFuture<?>[streams.length];
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
   * Predicts how long calls would take, without launching them.
   *
   * @return the predicted time of the rank that takes longest
   * @throws org.nccl4j.device.InvalidUsageException for one-sided operations, which are launched at
   *     once also in a group, for what registers windows, and in another group
   */
  public static Duration simulate(Runnable calls) {
    Given.notNull(calls, "calls of the group");
    return Duration.ofNanos(Math.round(Groups.simulate(calls) * 1000));
  }

  /** Begins a group on this thread. */
  public static void start() {
    Groups.start();
  }

  /**
   * Ends a group, and launches its calls if it is the outermost.
   *
   * @throws org.nccl4j.device.InvalidUsageException without a start
   * @throws org.nccl4j.device.InvalidArgumentException if two ranks of one communicator have
   *     operations in one stream, in which each would wait for the other
   * @throws org.nccl4j.device.NcclException the first error of a call in the group, of which then
   *     nothing was launched; or the first of a launch, once all that can be launched has been
   */
  public static void end() {
    Groups.end();
  }
}
