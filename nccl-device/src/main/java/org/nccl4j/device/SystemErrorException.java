package org.nccl4j.device;

/** The operating system refused a call. */
public final class SystemErrorException extends NcclException {
  private static final long serialVersionUID = 1L;

  /** An error without an underlying cause. See {@link NcclException} for the parameters. */
  public SystemErrorException(String problem, String remedy) {
    super(Code.SYSTEM_ERROR, ErrorId.SYSTEM, problem, remedy, null);
  }

  /** An error with an underlying cause. See {@link NcclException} for the parameters. */
  public SystemErrorException(String problem, String remedy, Throwable cause) {
    super(Code.SYSTEM_ERROR, ErrorId.SYSTEM, problem, remedy, cause);
  }

  /** An error of a kind of its code. See {@link NcclException} for the parameters. */
  public SystemErrorException(ErrorId id, String problem, String remedy) {
    this(id, problem, remedy, null);
  }

  /** An error of a kind, with an underlying cause. See {@link NcclException} for the parameters. */
  public SystemErrorException(ErrorId id, String problem, String remedy, Throwable cause) {
    super(Code.SYSTEM_ERROR, id, problem, remedy, cause);
  }

  @Override
  NcclException copy(String newProblem, Throwable newCause) {
    return new SystemErrorException(id(), newProblem, remedy(), newCause);
  }
}
