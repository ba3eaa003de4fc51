package org.nccl4j.it.abi;

import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import org.nccl4j.device.NcclException;

/** NCCL's result codes of exceptions, and the text of each thread's last error. */
final class Results {
  static final int SUCCESS = 0;
  static final int INTERNAL_ERROR = 3;
  static final int IN_PROGRESS = 7;

  private static final ThreadLocal<String> LAST = new ThreadLocal<>();

  private Results() {}

  /** Returns the result code of an error, and keeps its text for {@link #last}. */
  static int of(Throwable error) {
    Optional<NcclException> ours = known(error);
    LAST.set(
        ours.map(NcclException::getMessage)
            .orElseGet(() -> "nccl4j failed with " + cause(error) + ". Remedy: report this"));
    return ours.map(Results::code).orElse(INTERNAL_ERROR);
  }

  /** An error as one of nccl4j's; empty if it is a defect. */
  static Optional<NcclException> known(Throwable error) {
    Throwable cause = cause(error);
    if (cause instanceof CancellationException) {
      return Optional.of(
          Wrong.usage(
              "the creation of a communicator was given up, since the communicator was aborted or"
                  + " another call in its group failed",
              "create it again"));
    }
    return cause instanceof NcclException ours ? Optional.of(ours) : Optional.empty();
  }

  /** The code of an error. NCCL 2.28 has no code for timeouts: another rank is missing. */
  static int code(NcclException error) {
    return switch (error.code()) {
      case UNHANDLED_CUDA_ERROR -> 1;
      case SYSTEM_ERROR -> 2;
      case INTERNAL_ERROR -> INTERNAL_ERROR;
      case INVALID_ARGUMENT -> 4;
      case INVALID_USAGE -> 5;
      case REMOTE_ERROR, TIMEOUT -> 6;
    };
  }

  /** The error that a future failed with, without its wrappers. */
  static Throwable cause(Throwable error) {
    boolean wrapped =
        (error instanceof ExecutionException || error instanceof CompletionException)
            && error.getCause() != null;
    return wrapped ? cause(error.getCause()) : error;
  }

  /** The text of the calling thread's last error; empty if it had none. */
  static String last() {
    String text = LAST.get();
    return text == null ? "" : text;
  }
}
