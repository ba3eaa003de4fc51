package org.nccl4j.it.doctor.bind;

/** Functions of the CUDA driver. Results are written to the address given. */
public interface CudaProbe {
  /** Starts the driver; 0 for success. */
  int cuInit(int flags);

  /** 1000 x major + 10 x minor version. */
  int cuDriverGetVersion(long version);

  /** Returns the number of GPUs. */
  int cuDeviceGetCount(long count);
}
