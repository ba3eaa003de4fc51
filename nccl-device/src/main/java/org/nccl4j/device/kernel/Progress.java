package org.nccl4j.device.kernel;

import org.nccl4j.device.HotPath;

/**
 * Work on the processor that moves connections' data while kernels run, where the ends of a
 * connection are not the same memory. Kernels of the host device do it themselves while they wait,
 * which spares a hand-over to another thread and back. Any thread may call any method; none waits
 * or throws.
 */
public interface Progress {
  /** Nothing to do, since all connections are memory that both ends reach. */
  Progress NONE =
      new Progress() {
        @Override
        public int doWork() {
          return 0;
        }

        @Override
        public void kernelEnded() {}
      };

  /** Does what can be done now, unless another thread is at it, and returns how much it did. */
  int doWork();

  /** A kernel has been launched that cannot do the work itself: another thread is to be awake. */
  @HotPath
  default void kernelLaunched() {}

  /** A kernel has failed: buffers that it has exposed are not read any more once this returns. */
  default void endExposures() {}

  /** A kernel has ended: another thread finishes the transfers that it left under way. */
  void kernelEnded();
}
