package org.nccl4j.device;

/**
 * An error of nccl4j. Its message has the fact and the place in one sentence and the remedy (a
 * setting, a command, a change in the program) in another.
 *
 * <p>Unchecked, since most callers cannot repair it. The subclasses are NCCL's result codes. Only
 * this package can add one; {@link #code()} and {@link #id()} tell them apart.
 */
public abstract class NcclException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** NCCL's result codes. */
  public enum Code {
    /** The CUDA driver refused a call. */
    UNHANDLED_CUDA_ERROR(
        "The CUDA driver refused a call; the message has the call and the driver's code",
        "look up the code in the message; `./nccl doctor` tests driver and GPUs, and `dmesg` has"
            + " the GPU's errors (Xid)"),
    /** The operating system refused a call. */
    SYSTEM_ERROR(
        "The operating system refused a call: memory, descriptors, sockets, or an address that"
            + " cannot be reached; the message has the call and its errno",
        "raise the limit or choose the network that the message names; `./nccl doctor` shows the"
            + " limits of this machine"),
    /** A defect of nccl4j. */
    INTERNAL_ERROR(
        "A defect of nccl4j or of a plug-in",
        "report it, with the stack trace and the output of NCCL_DEBUG=INFO"),
    /** An argument that is invalid in every state of the program. */
    INVALID_ARGUMENT(
        "An invalid argument or setting; nothing was launched or allocated",
        "correct the argument that the message names; the communicator stays usable"),
    /** A call that does not fit the state of the program or the calls of other ranks. */
    INVALID_USAGE(
        "A call does not fit the program's state or the other ranks' calls: after close, in another"
            + " order, with another count",
        "make the same calls in the same order on all ranks; NCCL_CHECK_MODE=DEBUG_GLOBAL compares"
            + " them and names the first that differs"),
    /** Another rank failed, or the connection to it. */
    REMOTE_ERROR(
        "Another rank failed, its process ended or sends no heartbeats, or the connection to it"
            + " broke; the message names the rank, its host and its process",
        "look at that rank's output first; continue without it with Communicator.shrink and"
            + " ShrinkMode.ABORT"),
    /** A deadline passed. */
    TIMEOUT(
        "A deadline passed; the message names the rank that is behind, its operation, and which"
            + " rank waits for which",
        "check the rank that is behind (jstack, `./nccl diagnose`), or allow more time with"
            + " NCCL4J_TIMEOUT or NCCL4J_INIT_TIMEOUT");

    private final String meaning;
    private final String remedy;

    Code(String meaning, String remedy) {
      this.meaning = meaning;
      this.remedy = remedy;
    }

    /** The general meaning, without a full stop at the end. */
    public String meaning() {
      return meaning;
    }

    /** The general remedy, without a full stop at the end. */
    public String remedy() {
      return remedy;
    }
  }

  private final ErrorId id;
  private final String problem;
  private final String remedy;

  /** The name of the thread that made it. */
  private final String thread = Thread.currentThread().getName();

  NcclException(Code code, ErrorId id, String problem, String remedy, Throwable cause) {
    super(problem + ". Remedy: " + remedy + ". [" + id.text() + "]", cause);
    if (id.code() != code) {
      throw new IllegalArgumentException(id + " is not a kind of " + code);
    }
    this.id = id;
    this.problem = problem;
    this.remedy = remedy;
  }

  /** The result code. */
  public final Code code() {
    return id.code();
  }

  /** The kind of the error, which ends the message; listed in docs/reference/errors.md. */
  public final ErrorId id() {
    return id;
  }

  /** The fact, the place and the cause, without a full stop at the end. */
  public final String problem() {
    return problem;
  }

  /** The remedy, without a full stop at the end. */
  public final String remedy() {
    return remedy;
  }

  /**
   * Returns the same error for another thread or rank to throw, with its own stack trace. Its cause
   * has this error's stack trace and cause, without the text, which would be printed twice.
   */
  public final NcclException again() {
    Throwable origin = getCause() instanceof Origin first ? first : new Origin(this);
    NcclException again = copy(problem, origin);
    for (Throwable suppressed : getSuppressed()) {
      again.addSuppressed(suppressed);
    }
    return again;
  }

  /** Returns an error of the same kind and remedy with another problem; this error is its cause. */
  public final NcclException within(String newProblem) {
    return copy(newProblem, this);
  }

  /** Returns an error of the same class, kind and remedy. */
  abstract NcclException copy(String newProblem, Throwable newCause);

  /** The place where an error was thrown first. */
  private static final class Origin extends Exception {
    private static final long serialVersionUID = 1L;

    Origin(NcclException error) {
      super("this error where it first arose (thread " + error.thread + ")", error.getCause());
      setStackTrace(error.getStackTrace());
    }

    @Override
    public String toString() {
      return getMessage();
    }
  }
}
