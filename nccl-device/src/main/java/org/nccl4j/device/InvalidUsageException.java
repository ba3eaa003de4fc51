package org.nccl4j.device;

/** A call that does not fit the state of the program or the calls of other ranks. */
public final class InvalidUsageException extends NcclException {
  private static final long serialVersionUID = 1L;

  /** An error without an underlying cause. See {@link NcclException} for the parameters. */
  public InvalidUsageException(String problem, String remedy) {
    super(Code.INVALID_USAGE, problem, remedy, null);
  }

  /** An error with an underlying cause. See {@link NcclException} for the parameters. */
  public InvalidUsageException(String problem, String remedy, Throwable cause) {
    super(Code.INVALID_USAGE, problem, remedy, cause);
  }
}
