package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidUsageException;

/** The group that each thread has open, if any. */
public final class Groups {
  private static final ThreadLocal<Groups> MINE = ThreadLocal.withInitial(Groups::new);

  /** Groups that threads have open: while there are none, no thread need look for its own. */
  private static final AtomicInteger OPEN = new AtomicInteger();

  private Batch batch = new Batch();

  /** Of the group before this one; null while that is launched. */
  private Batch spare;

  private final List<Meetings.Meeting> meetings = new ArrayList<>();
  private int depth;

  /** Whether what is called will not be launched. */
  private boolean simulates;

  private Groups() {}

  /** Begins a group, or a level of one. */
  public static void start() {
    MINE.get().enter();
  }

  private void enter() {
    if (depth == 0) {
      OPEN.incrementAndGet();
    }
    depth++;
  }

  private void leave() {
    depth--;
    if (depth == 0) {
      OPEN.decrementAndGet();
    }
  }

  /**
   * Ends a level, and at the outermost launches what was called.
   *
   * @throws InvalidUsageException without a start
   */
  public static void end() {
    Groups mine = MINE.get();
    if (mine.depth == 0) {
      throw new InvalidUsageException(
          ErrorId.GROUP,
          "a group is ended that was not started on this thread",
          "call Group.start() first, on the same thread, or use Group.run");
    }
    mine.leave();
    if (mine.depth == 0) {
      mine.launch();
    }
  }

  /** Ends a level without launching what was called since the outermost start. */
  public static void discard() {
    Groups mine = MINE.get();
    if (mine.depth > 0) {
      mine.leave();
    }
    mine.batch.clear();
    mine.meetings.clear();
  }

  /**
   * Runs what waits for other ranks: at once, or at the end of this thread's group, there at the
   * same time as those of other ranks in the group, after those of the same, and before its
   * operations.
   *
   * @param whose tells ranks of communicators apart
   */
  public static void meet(Object whose, Runnable meeting) {
    Groups mine = open();
    if (mine != null) {
      mine.meetings.add(new Meetings.Meeting(whose, meeting));
    } else {
      meeting.run();
    }
  }

  /**
   * Runs calls as a group of its own that is not launched.
   *
   * @return microseconds that the slowest rank's operations are predicted to take
   */
  public static double simulate(Runnable calls) {
    Groups mine = MINE.get();
    if (mine.depth > 0) {
      throw new InvalidUsageException(
          ErrorId.GROUP, "a group is simulated inside another", "end the other group first");
    }
    mine.enter();
    mine.simulates = true;
    try {
      calls.run();
      Map<RankQueue, Double> sums = new LinkedHashMap<>();
      for (int t = 0; t < mine.batch.size(); t++) {
        Task task = mine.batch.task(t);
        sums.merge(task.queue(), task.queue().predict(task), Double::sum);
      }
      return sums.values().stream().mapToDouble(Double::doubleValue).max().orElse(0);
    } finally {
      mine.simulates = false;
      while (mine.depth > 0) {
        mine.leave();
      }
      mine.batch.clear();
      mine.meetings.clear();
    }
  }

  /** Throws in a group that is not launched; for what does not wait for a group's end. */
  public static void refuseWhereSimulated(String what) {
    Groups mine = open();
    if (mine != null && mine.simulates) {
      throw new InvalidUsageException(
          ErrorId.GROUP,
          what + " is called in a group that is simulated",
          "simulate collectives, sends and receives alone");
    }
  }

  /** Throws in any group; for what waits for other ranks at once. */
  public static void refuseInGroup(String what) {
    refuseInGroup(what, "");
  }

  /**
   * As {@link #refuseInGroup(String)}.
   *
   * @param twin that does not wait
   */
  public static void refuseInGroup(String what, String twin) {
    if (open() != null) {
      throw new InvalidUsageException(
          ErrorId.GROUP,
          what + " is called in a group, and would wait for ranks that the same thread may drive",
          "call it outside groups, on a thread for each rank"
              + (twin.isEmpty() ? "" : ", or call " + twin));
    }
  }

  /** That of the calling thread; null if it has none open. */
  @HotPath
  static Groups open() {
    Groups mine = OPEN.getOpaque() > 0 ? MINE.get() : null;
    return mine != null && mine.depth > 0 ? mine : null;
  }

  /** An operation that is launched at its end, to be set by the caller. */
  @HotPath
  Task next() {
    return batch.next();
  }

  /** What the launch itself calls on this thread may have groups too. */
  private void launch() {
    if (!meetings.isEmpty()) {
      meet();
    }
    Batch now = batch;
    batch = spare == null ? new Batch() : spare;
    spare = null;
    try {
      GroupLaunch.of(now);
      if (now.isOfSeveral()) {
        // This thread drives several ranks that wait for each other: none can wait for it.
        for (int t = 0; t < now.size(); t++) {
          now.task(t).stream().startNow();
        }
      }
    } finally {
      now.clear();
      spare = now;
    }
  }

  private void meet() {
    List<Meetings.Meeting> now = List.copyOf(meetings);
    meetings.clear();
    try {
      Meetings.run(now);
    } catch (RuntimeException e) {
      batch.clear();
      throw e;
    }
  }
}
