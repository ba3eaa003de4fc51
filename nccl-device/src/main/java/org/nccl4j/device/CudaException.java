package org.nccl4j.device;

/** The CUDA driver refused a call. */
public final class CudaException extends NcclException {
  private static final long serialVersionUID = 1L;

  private final int result;

  /** An error without an underlying cause. See {@link NcclException} for the parameters. */
  public CudaException(String problem, String remedy) {
    this(problem, remedy, 0);
  }

  /**
   * An error of a call. See {@link NcclException} for the other parameters.
   *
   * @param result the driver's CUresult
   */
  public CudaException(String problem, String remedy, int result) {
    this(problem, remedy, result, null);
  }

  /** An error with an underlying cause. See {@link NcclException} for the parameters. */
  public CudaException(String problem, String remedy, Throwable cause) {
    this(problem, remedy, cause instanceof CudaException cuda ? cuda.result : 0, cause);
  }

  private CudaException(String problem, String remedy, int result, Throwable cause) {
    super(Code.UNHANDLED_CUDA_ERROR, ErrorId.CUDA, problem, remedy, cause);
    this.result = result;
  }

  /** The driver's CUresult, or 0 where there is none. */
  public int result() {
    return result;
  }

  @Override
  NcclException copy(String newProblem, Throwable newCause) {
    return new CudaException(newProblem, remedy(), result, newCause);
  }
}
