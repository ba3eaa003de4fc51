package org.nccl4j.device;

/** A defect of nccl4j. */
public final class InternalErrorException extends NcclException {
  private static final long serialVersionUID = 1L;

  /** An error without an underlying cause. See {@link NcclException} for the parameters. */
  public InternalErrorException(String problem, String remedy) {
    super(Code.INTERNAL_ERROR, ErrorId.INTERNAL, problem, remedy, null);
  }

  /** An error with an underlying cause. See {@link NcclException} for the parameters. */
  public InternalErrorException(String problem, String remedy, Throwable cause) {
    super(Code.INTERNAL_ERROR, ErrorId.INTERNAL, problem, remedy, cause);
  }

  @Override
  NcclException copy(String newProblem, Throwable newCause) {
    return new InternalErrorException(newProblem, remedy(), newCause);
  }
}
