package org.nccl4j.device;

/** A deadline passed. */
public final class TimeoutException extends NcclException {
  private static final long serialVersionUID = 1L;

  /** An error without an underlying cause. See {@link NcclException} for the parameters. */
  public TimeoutException(String problem, String remedy) {
    super(Code.TIMEOUT, problem, remedy, null);
  }

  /** An error with an underlying cause. See {@link NcclException} for the parameters. */
  public TimeoutException(String problem, String remedy, Throwable cause) {
    super(Code.TIMEOUT, problem, remedy, cause);
  }
}
