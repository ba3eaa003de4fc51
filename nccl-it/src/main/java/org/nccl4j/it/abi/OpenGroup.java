package org.nccl4j.it.abi;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.nccl4j.api.Group;
import org.nccl4j.device.DeviceStream;

/** One thread's groups, with the calls that their outermost end waits for beside the launch. */
final class OpenGroup {
  private static final ThreadLocal<OpenGroup> MINE = ThreadLocal.withInitial(OpenGroup::new);

  private final List<CompletableFuture<?>> awaited = new ArrayList<>();
  private final Set<DeviceStream> hostStreams = new LinkedHashSet<>();
  private boolean inProgress;
  private int depth;

  private OpenGroup() {}

  static OpenGroup mine() {
    return MINE.get();
  }

  boolean isOpen() {
    return depth > 0;
  }

  void start() {
    Group.start();
    depth++;
  }

  /** Notes a creation, which the end awaits unless its communicator does not block. */
  void add(CompletableFuture<?> creation, boolean blocking) {
    if (blocking) {
      awaited.add(creation);
    } else {
      inProgress = true;
    }
  }

  /** Notes a stream of the host, whose operations have ended when the group has. */
  void add(DeviceStream hostStream) {
    hostStreams.add(hostStream);
  }

  /**
   * Ends a level.
   *
   * @return true if something that the group began goes on
   */
  boolean end() {
    checkStarted("ended");
    depth--;
    if (depth > 0) {
      Group.end();
      return false;
    }
    boolean goesOn = inProgress;
    try {
      awaitCreations();
      hostStreams.forEach(DeviceStream::startNow);
      hostStreams.forEach(DeviceStream::synchronize);
      return goesOn;
    } finally {
      forget();
    }
  }

  /** The outermost end launches whatever became of the creations, which other ranks wait for. */
  private void awaitCreations() {
    RuntimeException failure = null;
    for (CompletableFuture<?> creation : awaited) {
      try {
        creation.join();
      } catch (RuntimeException e) {
        failure = failure == null ? e : failure;
      }
    }
    try {
      Group.end();
    } catch (RuntimeException e) {
      failure = failure == null ? e : failure;
    }
    if (failure != null) {
      throw failure;
    }
  }

  /**
   * Ends the group without a launch.
   *
   * @return microseconds that its operations are predicted to take
   */
  double simulate() {
    checkStarted("simulated");
    double micros = Group.simulateEnd().toNanos() / 1e3;
    depth = 0;
    forget();
    return micros;
  }

  private void checkStarted(String what) {
    if (depth == 0) {
      throw Wrong.usage(
          "a group is " + what + " that was not started on this thread",
          "call ncclGroupStart first, on the same thread");
    }
  }

  private void forget() {
    awaited.clear();
    hostStreams.clear();
    inProgress = false;
  }
}
