package org.nccl4j.device.cuda;

import org.nccl4j.device.kernel.KernelPlan;

/** A plan on a GPU. Owned by the thread that launches. */
interface CudaPlan extends KernelPlan {
  /** Who prepared it. */
  CudaKernelCommunicator owner();

  /** Whether there is nothing to launch. */
  default boolean isEmpty() {
    return false;
  }

  /** Bytes that the launch's own send buffer needs; 0 where the plan knows its memory. */
  default long sendBytes() {
    return 0;
  }

  /** Bytes that the launch's own receive buffer needs, likewise. */
  default long recvBytes() {
    return 0;
  }

  /** Puts it into a stream, in the current context. Neither waits nor locks. */
  void launch(long send, long recv, CudaStream stream);
}
