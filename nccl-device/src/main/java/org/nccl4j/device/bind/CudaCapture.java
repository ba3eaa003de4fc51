package org.nccl4j.device.bind;

/** The functions of libcuda.so.1 about captures that JCuda lacks. Called by one class only. */
public interface CudaCapture {
  /**
   * See the CUDA driver API; the last three of its six arguments may be 0. The seventh is not one
   * of the function's; see {@link CudaMulticast#cuMulticastBindMem}.
   */
  int cuStreamGetCaptureInfo_v2(
      long stream,
      long status,
      long id,
      long graph,
      long dependencies,
      long nDependencies,
      long none);

  /** See the CUDA driver API. */
  int cuStreamWaitEvent(long stream, long event, int flags);

  /** See the CUDA driver API. */
  int cuUserObjectCreate(long object, long data, long destroy, int references, int flags);

  /** See the CUDA driver API. */
  int cuUserObjectRelease(long object, int references);

  /** See the CUDA driver API. */
  int cuGraphRetainUserObject(long graph, long object, int references, int flags);

  /** See the CUDA driver API. */
  int cuEventRecordWithFlags(long event, long stream, int flags);
}
