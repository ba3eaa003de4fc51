package org.nccl4j.device;

/** The operating system refused a call. */
public final class SystemErrorException extends NcclException {
  private static final long serialVersionUID = 1L;

  /** An error without an underlying cause. See {@link NcclException} for the parameters. */
  public SystemErrorException(String problem, String remedy) {
    super(Code.SYSTEM_ERROR, problem, remedy, null);
  }

  /** An error with an underlying cause. See {@link NcclException} for the parameters. */
  public SystemErrorException(String problem, String remedy, Throwable cause) {
    super(Code.SYSTEM_ERROR, problem, remedy, cause);
  }
}
