package org.nccl4j.it.run;

/** Exit statuses of commands beside 0 (good), 1 (failed) and 2 (wrong arguments). */
public final class ExitStatus {
  /** Nobody reads the output any more. Shells have this status for SIGPIPE. */
  public static final int OUTPUT_CLOSED = 128 + 13;

  private ExitStatus() {}
}
