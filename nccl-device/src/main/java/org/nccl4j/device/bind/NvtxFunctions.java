package org.nccl4j.device.bind;

/**
 * The functions of NVIDIA's tools extension that mark a thread's time. The library finds a tool
 * through NVTX_INJECTION64_PATH; without one the functions do nothing. They return the depth of the
 * range, or less than zero where nobody counts. Called only by the class that owns the library.
 */
public interface NvtxFunctions {
  /**
   * Begins a range.
   *
   * @param name the address of a text with a zero at its end, which is read during the call
   */
  int nvtxRangePushA(long name);

  int nvtxRangePop();
}
