package org.nccl4j.api.group;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.support.HeldCalls;
import org.nccl4j.device.support.PerThread;

/** The group that each thread has open, if any. */
public final class GroupScope {
  private static final PerThread<GroupScope> MINE = new PerThread<>(GroupScope::new);

  /** Stands for more than one thread. */
  private static final WeakReference<Thread> SEVERAL = new WeakReference<>(null);

  /**
   * The only living thread that has begun groups, {@link #SEVERAL}, or null if none has: other
   * threads need not look for a group of their own. It seldom changes. A count of the open groups
   * would be written by all threads at each group, and each would wait for the line of it that
   * another processor has.
   */
  private static volatile WeakReference<Thread> user;

  private static final System.Logger LOG = DebugLog.of("COLL");

  private GroupTasks batch = new GroupTasks();

  /** Tasks object of the group before this one, for reuse; null while that group is launched. */
  private GroupTasks spare;

  private final List<CollectiveCalls.Meeting> meetings = new ArrayList<>();

  /** Puts, signals and waits, in the order of their calls. */
  private OneSidedBatch oneSided = new OneSidedBatch();

  /** That of the group before this one, for reuse; null while that group is launched. */
  private OneSidedBatch spareOneSided;

  /** The calls so far while they are those of the group before; then the batch has none. */
  private final RepeatedExchange exchange = new RepeatedExchange();

  private int depth;

  /** True if what is called will not be launched. */
  private boolean simulates;

  /** The first error of a call in the group, which its outermost end throws; null while none. */
  private Throwable failure;

  /** True if the early wait for a stream was already logged for this thread. */
  private boolean warned;

  private GroupScope() {}

  /** A program may wait for what it launched before the group, so this is no error. */
  private static void warnOfHeldCalls(DeviceStream stream) {
    GroupScope mine = open();
    String held = mine == null || mine.warned ? null : mine.heldFor(stream);
    if (held != null) {
      mine.warned = true;
      LOG.log(
          System.Logger.Level.WARNING,
          "a stream of {0} is synchronized inside a group that still holds {1} for it; a group"
              + " launches its calls at its end. Remedy: synchronize after Group.end() or"
              + " Group.run(...)",
          stream.device().name(),
          held);
    }
  }

  /** An operation that the group keeps for a stream; null if there is none. */
  private String heldFor(DeviceStream stream) {
    String repeated = exchange.heldFor(stream);
    if (repeated != null) {
      return repeated;
    }
    Task held = batch.heldFor(stream);
    if (held != null) {
      return held.operation().key() + " of " + held.launcher().who();
    }
    OneSidedCall call = oneSided.heldFor(stream);
    return call == null ? null : call.name();
  }

  /** Begins a group, or a level of one. */
  public static void start() {
    mine().enter();
  }

  /** Returns the calling thread's scope; makes one if the thread has none. */
  private static GroupScope mine() {
    WeakReference<Thread> known = user;
    if (known != SEVERAL && (known == null || known.get() != Thread.currentThread())) {
      addUser(Thread.currentThread());
    }
    return MINE.get();
  }

  private static synchronized void addUser(Thread thread) {
    HeldCalls.tell(GroupScope::warnOfHeldCalls);
    Thread other = user == null ? null : user.get();
    boolean alone = user != SEVERAL && (other == null || !other.isAlive());
    user = alone ? new WeakReference<>(thread) : SEVERAL;
  }

  private void enter() {
    depth++;
  }

  private void leave() {
    depth--;
  }

  /**
   * Runs calls as a group, or as a level of one. If they throw, the group fails.
   *
   * @param calls may throw checked exceptions, as languages beside Java do without declaring them
   */
  public static void run(Runnable calls) {
    GroupScope mine = mine();
    mine.enter();
    int level = mine.depth;
    try {
      calls.run();
      mine.checkLevel(level, "Group.run");
    } catch (Throwable e) {
      mine.abandon(level, e);
      throw e;
    }
    end();
  }

  private void checkLevel(int level, String call) {
    if (depth != level) {
      throw new InvalidUsageException(
          ErrorId.GROUP,
          depth > level
              ? "%d groups that are started inside %s are not ended".formatted(depth - level, call)
              : "%d groups are ended inside %s that were started outside"
                  .formatted(level - depth, call),
          "match each Group.start with one Group.end, or use Group.run alone");
    }
  }

  /** Ends a level and those inside it after an error, which fails the group around them. */
  private void abandon(int level, Throwable error) {
    while (depth >= level) {
      leave();
    }
    if (depth > 0) {
      fail(error);
    } else {
      if (failure != null && failure != error) {
        error.addSuppressed(failure);
      }
      forget();
    }
  }

  /** A call has thrown: of the group nothing is launched. */
  void fail(Throwable error) {
    failure = failure == null ? error : failure;
  }

  /**
   * Has the calling thread's group fail, if one is open, by the error of a call that it does not
   * keep.
   *
   * @return the error, to be thrown
   */
  public static <E extends Throwable> E failed(E error) {
    GroupScope mine = open();
    if (mine != null) {
      mine.fail(error);
    }
    return error;
  }

  /** Keeps nothing of the group. */
  private void forget() {
    exchange.clear();
    batch.clear();
    meetings.clear();
    oneSided.clear();
    failure = null;
  }

  /** Throws what a call in the group threw, if one did; then there is nothing left of it. */
  private void throwFailure() {
    Throwable first = failure;
    if (first == null) {
      return;
    }
    forget();
    throw first instanceof NcclException ours
        ? ours.within(ours.problem() + "; nothing of the surrounding group was launched")
        : new InvalidUsageException(
            ErrorId.GROUP,
            "nothing of a group was launched: a group inside it threw " + first,
            "correct the inner group; its exception is the cause",
            first);
  }

  /**
   * Ends a level, and at the outermost launches what was called.
   *
   * @throws InvalidUsageException without a start
   */
  public static void end() {
    GroupScope mine = open();
    if (mine == null) {
      throw new InvalidUsageException(
          ErrorId.GROUP,
          "a group is ended that was not started on this thread",
          "call Group.start() first, on the same thread, or use Group.run");
    }
    if (mine.simulates && mine.depth == 1) {
      throw new InvalidUsageException(
          ErrorId.GROUP,
          "a group that is simulated is ended inside Group.simulate, which would launch it",
          "match each Group.end with one Group.start inside Group.simulate");
    }
    mine.leave();
    if (mine.depth == 0) {
      mine.throwFailure();
      mine.launch();
    }
  }

  /**
   * Runs what waits for other ranks: at once, or at the end of this thread's group, there at the
   * same time as those of other ranks in the group, after those of the same, and before its
   * operations.
   *
   * @param whose tells ranks of communicators apart
   */
  public static void meet(Object whose, Runnable meeting) {
    GroupScope mine = open();
    if (mine != null) {
      mine.meetings.add(new CollectiveCalls.Meeting(whose, meeting));
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
    GroupScope mine = mine();
    if (mine.depth > 0) {
      throw new InvalidUsageException(
          ErrorId.GROUP, "a group is simulated inside another", "end the other group first");
    }
    mine.enter();
    mine.simulates = true;
    try {
      calls.run();
      mine.checkLevel(1, "Group.simulate");
      return mine.predict();
    } finally {
      mine.simulates = false;
      mine.drop();
    }
  }

  /**
   * Ends the thread's group without a launch.
   *
   * @return as {@link #simulate} does
   */
  public static double simulateEnd() {
    GroupScope mine = open();
    if (mine == null || mine.depth > 1 || !mine.meetings.isEmpty()) {
      throw new InvalidUsageException(
          ErrorId.GROUP,
          mine == null
              ? "a group is simulated that was not started on this thread"
              : mine.depth > 1
                  ? "a group is simulated inside another"
                  : "a group is simulated in which windows are registered or deregistered",
          "start a group on the same thread, with operations alone, and simulate its outermost"
              + " end");
    }
    try {
      return mine.predict();
    } finally {
      mine.drop();
    }
  }

  /** Predicts what its operations take; throws what a call in it threw. */
  private double predict() {
    throwFailure();
    settle();
    Map<GroupLauncher, Double> sums = new LinkedHashMap<>();
    for (int t = 0; t < batch.size(); t++) {
      Task task = batch.task(t);
      sums.merge(task.launcher(), task.launcher().predict(task), Double::sum);
    }
    return sums.values().stream().mapToDouble(Double::doubleValue).max().orElse(0);
  }

  /** Ends all levels without a launch. */
  private void drop() {
    while (depth > 0) {
      leave();
    }
    forget();
  }

  /** Throws in a group that is not launched; for what does not wait for a group's end. */
  public static void refuseWhereSimulated(String what) {
    GroupScope mine = open();
    if (mine != null && mine.simulates) {
      throw new InvalidUsageException(
          ErrorId.GROUP,
          what + " is called in a group that is simulated",
          "simulate collectives, sends and receives alone");
    }
  }

  /** Throws in any group; for what completes with the operations of a group of its own. */
  public static void refuseInner(String what) {
    if (open() != null) {
      throw new InvalidUsageException(
          ErrorId.GROUP,
          what + " is called in a group, whose end launches the operations",
          "call it outside groups, or Group.run inside this one");
    }
  }

  /** Throws in any group; for what waits for other ranks at once. */
  public static void refuseInGroup(String what) {
    refuseInGroup(what, "");
  }

  /**
   * Refuses a call as {@link #refuseInGroup(String)} does, and names a call that does not wait.
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

  /** The levels that the calling thread has open, 0 outside groups. */
  public static int levels() {
    GroupScope mine = open();
    return mine == null ? 0 : mine.depth;
  }

  /** The operations that the calling thread's group keeps for its end; 0 outside groups. */
  public static int operations() {
    GroupScope mine = open();
    return mine == null ? 0 : mine.exchange.size() + mine.batch.size() + mine.oneSided.size();
  }

  /** True if any thread may have a scope open: many programs have no groups. */
  @HotPath
  static boolean mayBeOpen() {
    return user != null;
  }

  /** Returns the calling thread's open scope; null if it has none open. */
  @HotPath
  @SuppressWarnings("ReferenceEquality")
  static GroupScope open() {
    WeakReference<Thread> known = user;
    boolean isUser = known != null && (known == SEVERAL || known.get() == Thread.currentThread());
    GroupScope mine = isUser ? MINE.getIfMade() : null;
    return mine != null && mine.depth > 0 ? mine : null;
  }

  /**
   * The exchange that the group repeats as long as its calls are those of the group before; null
   * once another call has come. The caller adds to it, or calls {@link #settle}.
   */
  @HotPath
  RepeatedExchange exchange() {
    return batch.size() == 0 && !simulates ? exchange : null;
  }

  /** Turns the calls of a repeated exchange into tasks, before another task. */
  void settle() {
    try {
      for (int call = 0; call < exchange.size(); call++) {
        batch
            .next()
            .setHeld(exchange.launcher(), exchange.call(call), exchange.stream(), call == 0);
      }
    } finally {
      exchange.clear();
    }
  }

  /** True if the group has a lease of a stream already, which lasts until the group's end. */
  @HotPath
  boolean leases(DeviceStream stream) {
    return batch.leases(stream);
  }

  /** The operations that are launched at its end, so far. */
  @HotPath
  int size() {
    return batch.size();
  }

  /** An operation that is launched at its end, to be set by the caller. */
  @HotPath
  Task next() {
    return batch.next();
  }

  /** A put, a signal or a wait that is launched at its end, to be set and then kept. */
  @HotPath
  OneSidedCall nextOneSided() {
    return oneSided.next();
  }

  /** Keeps the call that was set last for its end, which ends the call's leases. */
  @HotPath
  void keepOneSided() {
    OneSidedCall call = oneSided.next();
    Task.lease(call.source(), null, null, call.stream());
    oneSided.keep();
  }

  /** Launches the group. Calls that the launch makes on this thread may open groups too. */
  private void launch() {
    if (exchange.size() > 0) {
      if (oneSided.size() == 0 && meetings.isEmpty() && exchange.launch()) {
        return;
      }
      try {
        settle();
      } catch (InvalidUsageException e) { // another thread has closed something meanwhile
        forget();
        throw e;
      }
    }
    List<CollectiveCalls.Meeting> met = meetings.isEmpty() ? List.of() : List.copyOf(meetings);
    meetings.clear();
    OneSidedBatch puts = oneSided;
    oneSided = spareOneSided == null ? new OneSidedBatch() : spareOneSided;
    spareOneSided = null;
    GroupTasks now = batch;
    batch = spare == null ? new GroupTasks() : spare;
    spare = null;
    try {
      now.divide();
      now.checkStreams();
      if (!met.isEmpty()) {
        CollectiveCalls.run(met);
      }
      if (puts.size() == 0) {
        now.launch();
      } else {
        launch(puts, now);
      }
    } finally {
      puts.clear();
      spareOneSided = puts;
      now.clear();
      spare = now;
    }
  }

  /**
   * Launches puts, signals and waits, and then the group's other operations, as NCCL does; throws
   * the first error after everything that can be launched has been. One that cannot be, since its
   * communicator has failed or its window is deregistered, leaves out all.
   */
  private static void launch(OneSidedBatch puts, GroupTasks others) {
    puts.check();
    others.checkAccepts();
    Throwable failure = null;
    for (int each = 0; each < puts.size(); each++) {
      failure = DeviceBatch.with(failure, puts.launch(each));
    }
    puts.startStreams();
    try {
      others.launch();
    } catch (RuntimeException | Error e) {
      failure = DeviceBatch.with(failure, e);
    }
    DeviceBatch.rethrow(failure);
  }
}
