package org.nccl4j.device.cuda;

import org.nccl4j.device.kernel.KernelPlan;

/** A plan on a GPU. Owned by the thread that launches. */
interface CudaPlan extends KernelPlan {
  /** Who prepared it. */
  CudaKernelCommunicator owner();

  /** Whether there is nothing to launch. */
  boolean isEmpty();

  /** Bytes that the launch's own send buffer needs. */
  long sendBytes();

  /** Bytes that the launch's own receive buffer needs. */
  long recvBytes();

  /** Puts it into a stream, in the current context. Neither waits nor locks. */
  void launch(long send, long recv, CudaStream stream);
}
