package org.nccl4j.device.cuda;

import java.util.ArrayDeque;
import java.util.Deque;
import org.nccl4j.device.Releases;

/** How to undo what has been done, the last first. One thread. */
final class Undo {
  private final CudaDevice device;
  private final Deque<Runnable> steps = new ArrayDeque<>();

  /** Steps that run in a device's context. */
  Undo(CudaDevice device) {
    this.device = device;
  }

  void push(Runnable step) {
    steps.push(step);
  }

  /** Undoes everything, also when a step fails; then throws the first failure with the others. */
  void run() {
    Releases all = new Releases();
    while (!steps.isEmpty()) {
      Runnable step = steps.pop();
      all.take(() -> device.context().run(step));
    }
    all.end();
  }
}
