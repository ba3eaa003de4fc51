package org.nccl4j.device;

/** Another rank failed, or the connection to it. */
public final class RemoteException extends NcclException {
  private static final long serialVersionUID = 1L;

  /** An error without an underlying cause. See {@link NcclException} for the parameters. */
  public RemoteException(String problem, String remedy) {
    super(Code.REMOTE_ERROR, ErrorId.REMOTE, problem, remedy, null);
  }

  /** An error with an underlying cause. See {@link NcclException} for the parameters. */
  public RemoteException(String problem, String remedy, Throwable cause) {
    super(Code.REMOTE_ERROR, ErrorId.REMOTE, problem, remedy, cause);
  }

  /** An error of a kind of its code. See {@link NcclException} for the parameters. */
  public RemoteException(ErrorId id, String problem, String remedy) {
    this(id, problem, remedy, null);
  }

  /** An error of a kind, with an underlying cause. See {@link NcclException} for the parameters. */
  public RemoteException(ErrorId id, String problem, String remedy, Throwable cause) {
    super(Code.REMOTE_ERROR, id, problem, remedy, cause);
  }

  @Override
  NcclException copy(String newProblem, Throwable newCause) {
    return new RemoteException(id(), newProblem, remedy(), newCause);
  }
}
