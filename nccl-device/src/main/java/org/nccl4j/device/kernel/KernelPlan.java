package org.nccl4j.device.kernel;

/**
 * A device's prepared launch of an operation, launched any number of times with different buffers.
 * Made and used by one {@link KernelCommunicator}.
 */
public interface KernelPlan {
  /**
   * Gives back what it holds outside the heap, once the launches under way have ended. It is
   * launched no more. By the thread that prepares and launches; calling it again does nothing.
   */
  default void discard() {}

  /** Blocks of its largest kernel on a GPU; 0 where it has no kernel, and on the host. */
  default int blocks() {
    return 0;
  }
}
