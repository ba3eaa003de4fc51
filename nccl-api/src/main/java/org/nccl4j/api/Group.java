package org.nccl4j.api;

import org.nccl4j.api.group.Groups;

/**
 * Calls that belong together: those made between {@link #start()} and {@link #end()} on one thread
 * are launched together, sends and receives among them progress together, and one thread can drive
 * several ranks. Groups nest; the outermost end launches.
 */
public final class Group {
  private Group() {}

  /**
   * Runs calls as a group. If they throw, none of them is launched.
   *
   * @param calls operations of any communicators of this process
   */
  public static void run(Runnable calls) {
    Groups.start();
    try {
      calls.run();
    } catch (RuntimeException | Error e) {
      Groups.discard();
      throw e;
    }
    Groups.end();
  }

  /** Begins a group on this thread. */
  public static void start() {
    Groups.start();
  }

  /**
   * Ends a group, and launches its calls if it is the outermost.
   *
   * @throws org.nccl4j.device.InvalidUsageException without a start
   */
  public static void end() {
    Groups.end();
  }
}
