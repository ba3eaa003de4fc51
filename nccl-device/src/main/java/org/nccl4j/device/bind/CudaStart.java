package org.nccl4j.device.bind;

/**
 * The functions that start the driver. Separate from {@link CudaDriver}, whose binding takes time
 * and goes on while the driver starts. Called by one class only.
 */
public interface CudaStart {
  /** See the CUDA driver API. */
  int cuInit(int flags);
}
