package org.nccl4j.device;

/** An argument that is invalid in every state of the program. */
public final class InvalidArgumentException extends NcclException {
  private static final long serialVersionUID = 1L;

  /** An error without an underlying cause. See {@link NcclException} for the parameters. */
  public InvalidArgumentException(String problem, String remedy) {
    super(Code.INVALID_ARGUMENT, ErrorId.ARGUMENT, problem, remedy, null);
  }

  /** An error with an underlying cause. See {@link NcclException} for the parameters. */
  public InvalidArgumentException(String problem, String remedy, Throwable cause) {
    super(Code.INVALID_ARGUMENT, ErrorId.ARGUMENT, problem, remedy, cause);
  }

  /** An error of a kind of its code. See {@link NcclException} for the parameters. */
  public InvalidArgumentException(ErrorId id, String problem, String remedy) {
    this(id, problem, remedy, null);
  }

  /** An error of a kind, with an underlying cause. See {@link NcclException} for the parameters. */
  public InvalidArgumentException(ErrorId id, String problem, String remedy, Throwable cause) {
    super(Code.INVALID_ARGUMENT, id, problem, remedy, cause);
  }

  @Override
  NcclException copy(String newProblem, Throwable newCause) {
    return new InvalidArgumentException(id(), newProblem, remedy(), newCause);
  }
}
