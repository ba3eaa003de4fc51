package org.nccl4j.device;

/** A deadline passed. */
public final class TimeoutException extends NcclException {
  private static final long serialVersionUID = 1L;

  /** An error without an underlying cause. See {@link NcclException} for the parameters. */
  public TimeoutException(String problem, String remedy) {
    super(Code.TIMEOUT, ErrorId.TIMEOUT, problem, remedy, null);
  }

  /** An error with an underlying cause. See {@link NcclException} for the parameters. */
  public TimeoutException(String problem, String remedy, Throwable cause) {
    super(Code.TIMEOUT, ErrorId.TIMEOUT, problem, remedy, cause);
  }

  /** An error of a kind of its code. See {@link NcclException} for the parameters. */
  public TimeoutException(ErrorId id, String problem, String remedy) {
    this(id, problem, remedy, null);
  }

  /** An error of a kind, with an underlying cause. See {@link NcclException} for the parameters. */
  public TimeoutException(ErrorId id, String problem, String remedy, Throwable cause) {
    super(Code.TIMEOUT, id, problem, remedy, cause);
  }

  @Override
  NcclException copy(String newProblem, Throwable newCause) {
    return new TimeoutException(id(), newProblem, remedy(), newCause);
  }
}
