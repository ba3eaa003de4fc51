package org.nccl4j.device;

/** An argument that no state of the program would make right. */
public final class InvalidArgumentException extends NcclException {
  private static final long serialVersionUID = 1L;

  /** An error without an underlying cause. See {@link NcclException} for the parameters. */
  public InvalidArgumentException(String problem, String remedy) {
    super(Code.INVALID_ARGUMENT, problem, remedy, null);
  }

  /** An error with an underlying cause. See {@link NcclException} for the parameters. */
  public InvalidArgumentException(String problem, String remedy, Throwable cause) {
    super(Code.INVALID_ARGUMENT, problem, remedy, cause);
  }
}
