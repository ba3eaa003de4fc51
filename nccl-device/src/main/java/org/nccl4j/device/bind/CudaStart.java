package org.nccl4j.device.bind;

/**
 * What starts the driver. Apart from {@link CudaDriver}, which takes its time to be bound: that
 * goes on while the driver starts. Called by one class alone.
 */
public interface CudaStart {
  /** See the CUDA driver API. */
  int cuInit(int flags);
}
