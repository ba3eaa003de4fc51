package org.nccl4j.api.init;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;

/**
 * Frees the created parts of a communicator if its creation fails: a stack of clean-up steps, the
 * last step first. One thread.
 */
final class CleanupStack {
  private final Deque<Runnable> steps = new ArrayDeque<>();

  /** Something has been made, which a step frees. */
  void push(Runnable step) {
    steps.push(step);
  }

  /** Returns the number of steps. */
  int size() {
    return steps.size();
  }

  /** Keeps the first steps, and replaces all later ones by one step that frees the same. */
  void replace(int first, Runnable step) {
    while (steps.size() > first) {
      steps.pop();
    }
    steps.push(step);
  }

  /**
   * Runs a creation; if it fails, frees the created parts and throws the reason.
   *
   * @param name of the communicator
   * @param tell receives the reason before
   */
  <T> T made(String name, Supplier<T> making, Consumer<NcclException> tell) {
    try {
      return making.get();
    } catch (NcclException e) {
      undo(e, tell);
      throw e;
    } catch (RuntimeException | Error e) {
      InternalErrorException internal =
          new InternalErrorException(
              "communicator %s could not be created (%s)".formatted(name, e),
              "report this with the stack trace",
              e);
      undo(internal, tell);
      throw internal;
    }
  }

  /** The user is to see the first error: those of the telling and of the steps are added to it. */
  private void undo(NcclException cause, Consumer<NcclException> tell) {
    attempt(() -> tell.accept(cause), cause);
    while (!steps.isEmpty()) {
      attempt(steps.pop(), cause);
    }
  }

  /** Errors too: the steps that are left free memory and threads. */
  private static void attempt(Runnable step, NcclException cause) {
    try {
      step.run();
    } catch (RuntimeException | Error e) {
      if (e != cause) {
        cause.addSuppressed(e);
      }
    }
  }
}
