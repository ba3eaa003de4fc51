package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;

/**
 * Launches a group's operations. Those of several ranks that one thread drives are launched by a
 * thread for each on GPUs, as long as there are processors for them: a launch takes a thread about
 * as long as a small operation takes a GPU, and one device after the other would keep the first
 * waiting for the last. Communicators that share connections are launched by one, in the order of
 * their first calls, which is the same on all ranks. A large group never waits for room in a
 * stream: streams of the host grow, and GPUs' parts are launched by a thread for each.
 *
 * <p>Ranks that share a GPU are launched by the calling thread in turns, one operation each: a GPU
 * has few queues for its streams, and a stream that waits for an operation's end holds up all
 * streams of its queue. So all ranks' kernels of an operation come before the first such wait.
 */
final class GroupLaunch {
  /** To ask takes longer than to launch. */
  private static final int PROCESSORS = Runtime.getRuntime().availableProcessors();

  /**
   * Operations from which on a group may fill a stream, which holds about a thousand launches: a
   * part that waits for room waits for operations of the parts behind it. An operation is at most
   * four launches.
   */
  private static final int LARGE = 100;

  private GroupLaunch() {}

  /**
   * Launches a batch that is divided; the first error with the others, after everything that can be
   * launched has been.
   */
  static void of(GroupTasks batch) {
    boolean several = batch.isOfSeveral();
    boolean large = several && batch.size() >= LARGE;
    if (large) {
      batch.growStreams(true);
    }
    Throwable failure = launch(batch, large);
    if (large) {
      batch.growStreams(false);
    }
    if (several) {
      batch.startStreams();
    }
    rethrow(failure);
  }

  /** Throws what a launch threw, if it did. */
  static void rethrow(Throwable failure) {
    if (failure instanceof RuntimeException e) {
      throw e;
    } else if (failure instanceof Error e) {
      throw e;
    }
  }

  /** Launches a batch; returns the error that the launch threw, or null. */
  private static Throwable launch(GroupTasks batch, boolean large) {
    int parts = batch.nParts();
    boolean together = parts > 1 && (large || PROCESSORS >= 2 * parts);
    boolean crowded = false;
    for (int p = 0; p < parts; p++) {
      together &= batch.part(p).isOnGpu();
      for (int q = 0; q < p; q++) {
        crowded |= batch.part(p).isOnGpu() && batch.part(p).device() == batch.part(q).device();
      }
    }
    if (crowded) {
      return inTurns(batch);
    }
    if (together) {
      return together(batch);
    }
    Throwable failure = null;
    for (int p = 0; p < parts; p++) {
      failure = with(failure, launch(batch.part(p)));
    }
    return failure;
  }

  /** Prepares all parts, then launches the first unit of each, the second of each, and so on. */
  private static Throwable inTurns(GroupTasks batch) {
    List<Iterator<Part.Unit>> turns = new ArrayList<>();
    for (int p = 0; p < batch.nParts(); p++) {
      batch.part(p).prepare();
      turns.add(batch.part(p).units().iterator());
    }
    Throwable failure = null;
    while (turns.stream().anyMatch(Iterator::hasNext)) {
      for (Iterator<Part.Unit> units : turns) {
        failure = with(failure, units.hasNext() ? launch(units.next()) : null);
      }
    }
    return failure;
  }

  /** The caller takes the last: the last device that a thread has called for is often current. */
  private static Throwable together(GroupTasks batch) {
    int own = batch.nParts() - 1;
    for (int p = 0; p < own; p++) {
      batch.part(p).hand();
    }
    Throwable failure = null;
    for (int p = own; p >= 0; p--) {
      failure = with(failure, batch.part(p).isHanded() ? null : launch(batch.part(p)));
    }
    for (int p = 0; p < own; p++) {
      failure = with(failure, batch.part(p).isHanded() ? batch.part(p).await() : null);
    }
    return failure;
  }

  private static Throwable launch(Runnable part) {
    try {
      part.run();
      return null;
    } catch (RuntimeException | Error e) {
      return e;
    }
  }

  /** The first error, with the next beside it. */
  static Throwable with(Throwable first, Throwable next) {
    if (first != null && next != null && first != next) {
      first.addSuppressed(next);
    }
    return first == null ? next : first;
  }
}
