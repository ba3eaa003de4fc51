package org.nccl4j.it.abi;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import org.nccl4j.api.Group;
import org.nccl4j.device.DeviceStream;

/** One thread's groups, with the calls that their outermost end waits for beside the launch. */
final class OpenGroup {
  private static final ThreadLocal<OpenGroup> MINE = ThreadLocal.withInitial(OpenGroup::new);

  /** A thread for each call. */
  static final Executor MEETING = OpenGroup::start;

  /** The creations that the group began. */
  private final List<CompletableFuture<?>> creations = new ArrayList<>();

  /** The ends of those whose communicators block. */
  private final List<CompletableFuture<?>> awaited = new ArrayList<>();

  /** Calls that wait for other ranks, which the end makes together. */
  private final Map<Object, Runnable> meetings = new LinkedHashMap<>();

  /**
   * Registrations of windows for which the program does not wait, by what runs those of a rank in
   * the background.
   */
  private final Map<Consumer<Runnable>, Runnable> registrations = new LinkedHashMap<>();

  /** Each once; there are few, and a set would allocate at each call. */
  private final List<DeviceStream> hostStreams = new ArrayList<>();

  private boolean inProgress;

  /** True if a call of the group has failed. */
  private boolean failed;

  private OpenGroup() {}

  static OpenGroup mine() {
    return MINE.get();
  }

  boolean isOpen() {
    return Group.depth() > 0;
  }

  /**
   * Notes a creation, which the end awaits unless its communicator does not block.
   *
   * @param creation to cancel if the group fails
   * @param end completes when the communicator can be used
   */
  void add(CompletableFuture<?> creation, CompletableFuture<?> end, boolean blocking) {
    creations.add(creation);
    if (blocking) {
      awaited.add(end);
    } else {
      inProgress = true;
    }
  }

  /**
   * Keeps a call that waits for other ranks, which this thread may drive too, for the end.
   *
   * @param rank whose it is: its calls follow each other
   */
  void add(Object rank, Runnable call) {
    meetings.merge(rank, call, OpenGroup::inTurn);
  }

  /**
   * Keeps the registration of a window of a communicator that does not block, for the end.
   *
   * @param background runs the registrations of the rank without waiting for them; one for each
   */
  void register(Consumer<Runnable> background, Runnable registration) {
    registrations.merge(background, registration, OpenGroup::inTurn);
  }

  private static Runnable inTurn(Runnable first, Runnable second) {
    return () -> {
      first.run();
      second.run();
    };
  }

  /** Notes a stream of the host, whose operations have ended when the group has. */
  void add(DeviceStream hostStream) {
    if (!hostStreams.contains(hostStream)) {
      hostStreams.add(hostStream);
    }
  }

  /**
   * Fails the group, if one is open: its outermost end launches nothing, gives up the creations,
   * for which other ranks may be missing, and throws the group's first error.
   */
  void fail(Throwable error) {
    if (!isOpen()) {
      return;
    }
    failed = true;
    Throwable cause = Results.cause(error);
    RuntimeException first =
        cause instanceof RuntimeException unchecked ? unchecked : new CompletionException(cause);
    try {
      Group.run(
          () -> {
            throw first;
          });
    } catch (RuntimeException e) {
      // An inner group that throws fails those around it.
    }
  }

  /**
   * Ends a level.
   *
   * @return true if something that the group began goes on
   */
  boolean end() {
    if (Group.depth() != 1) {
      Group.end();
      return false;
    }
    if (failed) {
      giveUp();
    }
    boolean goesOn = inProgress;
    try {
      goesOn |= launch();
      hostStreams.forEach(DeviceStream::startNow);
      synchronize();
      return goesOn;
    } finally {
      forget();
    }
  }

  /**
   * The outermost end makes the calls of all ranks and launches, whatever became of the creations,
   * which other ranks wait for.
   *
   * @return true if the registrations of windows go on
   */
  private boolean launch() {
    RuntimeException failure = await(null, awaited);
    if (!meetings.isEmpty()) {
      List<CompletableFuture<?>> ends = new ArrayList<>();
      meetings.values().forEach(call -> ends.add(CompletableFuture.runAsync(call, MEETING)));
      failure = await(failure, ends);
    }
    boolean goesOn = false;
    try {
      boolean together = registerWithOperations();
      Group.end();
      if (!together) {
        registrations.forEach(Consumer::accept);
        goesOn = !registrations.isEmpty();
      }
    } catch (RuntimeException e) {
      failure = failure == null ? e : failure;
    }
    if (failure != null) {
      throw failure;
    }
    return goesOn;
  }

  /**
   * Has the group register the windows before its operations, which may use them.
   *
   * @return false if it has no operations
   */
  private boolean registerWithOperations() {
    if (Group.operations() == 0) {
      return false;
    }
    try {
      registrations.values().forEach(Runnable::run);
    } catch (RuntimeException e) {
      fail(e);
    }
    return true;
  }

  private static void start(Runnable call) {
    Thread thread = new Thread(call, "nccl4j-group");
    thread.setDaemon(true);
    thread.start();
  }

  /** Waits for all; returns the first error. */
  private static RuntimeException await(RuntimeException before, List<CompletableFuture<?>> ends) {
    RuntimeException failure = before;
    for (int at = 0; at < ends.size(); at++) {
      try {
        ends.get(at).join();
      } catch (RuntimeException e) {
        failure = failure == null ? e : failure;
      }
    }
    return failure;
  }

  /** Waits for all streams, of which one may end with an error: the buffers are the program's. */
  private void synchronize() {
    RuntimeException failure = null;
    for (int s = 0; s < hostStreams.size(); s++) {
      try {
        hostStreams.get(s).synchronize();
      } catch (RuntimeException e) {
        failure = failure == null ? e : failure;
      }
    }
    if (failure != null) {
      throw failure;
    }
  }

  /**
   * Ends a level, the outermost without a launch.
   *
   * @return microseconds that the group's operations are predicted to take; 0 inside another group
   */
  double simulate() {
    if (Group.depth() > 1) {
      Group.end();
      return 0;
    }
    try {
      if (failed) {
        giveUp();
      }
      registrations.values().forEach(Runnable::run); // which are not simulated
      return Group.simulateEnd().toNanos() / 1e3;
    } catch (RuntimeException e) {
      if (isOpen()) { // with windows, which have no predicted time
        fail(e);
        Group.end();
      }
      throw e;
    } finally {
      forget();
    }
  }

  /** Keeps nothing to wait for. */
  private void giveUp() {
    creations.forEach(each -> each.cancel(true));
    awaited.clear();
    meetings.clear();
    registrations.clear();
  }

  private void forget() {
    creations.clear();
    awaited.clear();
    meetings.clear();
    registrations.clear();
    hostStreams.clear();
    inProgress = false;
    failed = false;
  }
}
