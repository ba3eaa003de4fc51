package org.nccl4j.device;

/** The CUDA driver refused a call. */
public final class CudaException extends NcclException {
  private static final long serialVersionUID = 1L;

  /** An error without an underlying cause. See {@link NcclException} for the parameters. */
  public CudaException(String problem, String remedy) {
    super(Code.UNHANDLED_CUDA_ERROR, ErrorId.CUDA, problem, remedy, null);
  }

  /** An error with an underlying cause. See {@link NcclException} for the parameters. */
  public CudaException(String problem, String remedy, Throwable cause) {
    super(Code.UNHANDLED_CUDA_ERROR, ErrorId.CUDA, problem, remedy, cause);
  }
}
