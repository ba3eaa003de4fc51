package org.nccl4j.device;

/**
 * The ranks call operations in different orders, on one communicator or on several that share
 * connections. Names both operations.
 */
public final class OrderMismatchException extends NcclException {
  private static final long serialVersionUID = 1L;

  /** An error without an underlying cause. See {@link NcclException} for the parameters. */
  public OrderMismatchException(String problem, String remedy) {
    this(problem, remedy, null);
  }

  /** An error with an underlying cause. See {@link NcclException} for the parameters. */
  public OrderMismatchException(String problem, String remedy, Throwable cause) {
    super(Code.INVALID_USAGE, ErrorId.ORDER_DIFFERS, problem, remedy, cause);
  }

  @Override
  NcclException copy(String newProblem, Throwable newCause) {
    return new OrderMismatchException(newProblem, remedy(), newCause);
  }
}
