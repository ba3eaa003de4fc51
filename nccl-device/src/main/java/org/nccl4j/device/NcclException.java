package org.nccl4j.device;

import java.util.Objects;

/**
 * Anything that goes wrong in nccl4j. Its message has the fact and the place in one sentence and
 * the remedy (a setting, a command, a change in the program) in another.
 *
 * <p>Unchecked, since most callers cannot repair it. The subclasses are NCCL's result codes.
 */
public abstract sealed class NcclException extends RuntimeException
    permits CudaException,
        InternalErrorException,
        InvalidArgumentException,
        InvalidUsageException,
        OrderMismatchException,
        RemoteException,
        SystemErrorException,
        TimeoutException {
  private static final long serialVersionUID = 1L;

  /** What kind of thing went wrong; NCCL's result codes. */
  public enum Code {
    /** The CUDA driver refused a call. */
    UNHANDLED_CUDA_ERROR,
    /** The operating system refused a call. */
    SYSTEM_ERROR,
    /** A defect of nccl4j. */
    INTERNAL_ERROR,
    /** An argument that no state of the program would make right. */
    INVALID_ARGUMENT,
    /** A call that does not fit the state of the program or the calls of other ranks. */
    INVALID_USAGE,
    /** Another rank failed, or the way to it. */
    REMOTE_ERROR,
    /** A deadline passed. */
    TIMEOUT
  }

  private final Code code;
  private final String problem;
  private final String remedy;

  NcclException(Code code, String problem, String remedy, Throwable cause) {
    super(problem + ". Remedy: " + remedy + ".", cause);
    this.code = Objects.requireNonNull(code);
    this.problem = problem;
    this.remedy = remedy;
  }

  /** The result code. */
  public final Code code() {
    return code;
  }

  /** What happened, where and why; no full stop at the end. */
  public final String problem() {
    return problem;
  }

  /** What to do about it; no full stop at the end. */
  public final String remedy() {
    return remedy;
  }

  /**
   * The same error for another thread or rank to throw: its own stack trace, this one as its cause.
   */
  public final NcclException again() {
    return this instanceof OrderMismatchException
        ? new OrderMismatchException(problem, remedy, this)
        : of(code, problem, remedy, this);
  }

  /** An error by its code, for those who received it from another rank. */
  public static NcclException of(Code code, String problem, String remedy, Throwable cause) {
    return switch (code) {
      case UNHANDLED_CUDA_ERROR -> new CudaException(problem, remedy, cause);
      case SYSTEM_ERROR -> new SystemErrorException(problem, remedy, cause);
      case INTERNAL_ERROR -> new InternalErrorException(problem, remedy, cause);
      case INVALID_ARGUMENT -> new InvalidArgumentException(problem, remedy, cause);
      case INVALID_USAGE -> new InvalidUsageException(problem, remedy, cause);
      case REMOTE_ERROR -> new RemoteException(problem, remedy, cause);
      case TIMEOUT -> new TimeoutException(problem, remedy, cause);
    };
  }
}
