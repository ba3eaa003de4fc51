package org.nccl4j.it.arch.broken.device.cuda;

/** Calls a library whose switches are its users'. */
public class CallsJcuda {
  /** Returns a status, or throws. */
  public int call() {
    return jcuda.driver.JCudaDriver.cuCtxSynchronize();
  }
}
