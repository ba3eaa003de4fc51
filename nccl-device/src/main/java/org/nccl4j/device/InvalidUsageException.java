package org.nccl4j.device;

/** A call that does not fit the state of the program or the calls of other ranks. */
public final class InvalidUsageException extends NcclException {
  private static final long serialVersionUID = 1L;

  /** An error without an underlying cause. See {@link NcclException} for the parameters. */
  public InvalidUsageException(String problem, String remedy) {
    super(Code.INVALID_USAGE, ErrorId.USAGE, problem, remedy, null);
  }

  /** An error with an underlying cause. See {@link NcclException} for the parameters. */
  public InvalidUsageException(String problem, String remedy, Throwable cause) {
    super(Code.INVALID_USAGE, ErrorId.USAGE, problem, remedy, cause);
  }

  /** An error of a kind of its code. See {@link NcclException} for the parameters. */
  public InvalidUsageException(ErrorId id, String problem, String remedy) {
    this(id, problem, remedy, null);
  }

  /** An error of a kind, with an underlying cause. See {@link NcclException} for the parameters. */
  public InvalidUsageException(ErrorId id, String problem, String remedy, Throwable cause) {
    super(Code.INVALID_USAGE, id, problem, remedy, cause);
  }

  @Override
  NcclException copy(String newProblem, Throwable newCause) {
    return new InvalidUsageException(id(), newProblem, remedy(), newCause);
  }
}
