package org.nccl4j.device.cuda.driver;

import java.util.ArrayDeque;
import java.util.Deque;
import org.nccl4j.device.support.CloseAll;

/** A stack of clean-up steps; the last step runs first. One thread. */
public final class GpuCleanup {
  private final Gpu gpu;
  private final Deque<Runnable> steps = new ArrayDeque<>();

  /** Steps that run in a device's context. */
  public GpuCleanup(Gpu gpu) {
    this.gpu = gpu;
  }

  public void push(Runnable step) {
    steps.push(step);
  }

  /** Undoes everything, also when a step fails; then throws the first failure with the others. */
  public void run() {
    CloseAll all = new CloseAll();
    while (!steps.isEmpty()) {
      Runnable step = steps.pop();
      all.take(() -> gpu.context().run(step));
    }
    all.end();
  }
}
