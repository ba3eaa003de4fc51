package org.nccl4j.it.abi;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.nccl4j.api.Group;
import org.nccl4j.device.DeviceStream;

/** One thread's groups, with the calls that their outermost end waits for beside the launch. */
final class OpenGroup {
  private static final ThreadLocal<OpenGroup> MINE = ThreadLocal.withInitial(OpenGroup::new);

  /** The creations that the group began. */
  private final List<CompletableFuture<?>> creations = new ArrayList<>();

  /** The ends of those whose communicators block. */
  private final List<CompletableFuture<?>> awaited = new ArrayList<>();

  private final Set<DeviceStream> hostStreams = new LinkedHashSet<>();
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

  /** Notes a stream of the host, whose operations have ended when the group has. */
  void add(DeviceStream hostStream) {
    hostStreams.add(hostStream);
  }

  /**
   * Fails the group, if one is open: its outermost end launches nothing, gives up the creations, for
   * which other ranks may be missing, and throws the group's first error.
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
    boolean goesOn = inProgress;
    if (failed) {
      creations.forEach(each -> each.cancel(true));
      awaited.clear();
    }
    try {
      awaitCreations();
      hostStreams.forEach(DeviceStream::startNow);
      synchronize();
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

  /** Waits for all streams, of which one may end with an error: the buffers are the program's. */
  private void synchronize() {
    RuntimeException failure = null;
    for (DeviceStream each : hostStreams) {
      try {
        each.synchronize();
      } catch (RuntimeException e) {
        failure = failure == null ? e : failure;
      }
    }
    if (failure != null) {
      throw failure;
    }
  }

  /**
   * Ends the group without a launch, unless it stays open with an error.
   *
   * @return microseconds that its operations are predicted to take
   */
  double simulate() {
    if (failed && Group.depth() == 1) {
      creations.forEach(each -> each.cancel(true));
    }
    try {
      return Group.simulateEnd().toNanos() / 1e3;
    } finally {
      if (!isOpen()) {
        forget();
      }
    }
  }

  private void forget() {
    creations.clear();
    awaited.clear();
    hostStreams.clear();
    inProgress = false;
    failed = false;
  }
}
