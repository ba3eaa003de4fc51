package org.nccl4j.it.run;

import org.nccl4j.api.observe.flight.FlightReader;
import picocli.CommandLine;

/** Exit statuses of commands beside 0 (good), 1 (failed) and 2 (wrong arguments). */
public final class ExitStatus {
  /** No process has a communicator to look at. */
  public static final int NO_COMMUNICATOR = 3;

  /** Nobody reads the output any more. Shells have this status for SIGPIPE. */
  public static final int OUTPUT_CLOSED = 128 + 13;

  private ExitStatus() {}

  /** Tells that no process has a communicator; returns that status. */
  public static int noCommunicator(CommandLine command) {
    command
        .getErr()
        .printf(
            "%s: %s%n  remedy: run this while the program runs, as its user%n",
            command.getCommandSpec().qualifiedName(), FlightReader.none());
    command.getErr().flush();
    return NO_COMMUNICATOR;
  }
}
