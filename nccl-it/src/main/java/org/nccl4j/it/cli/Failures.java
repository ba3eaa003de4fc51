package org.nccl4j.it.cli;

import java.io.PrintWriter;
import org.nccl4j.device.NcclException;
import picocli.CommandLine;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.ParseResult;

/** What a user is told when something goes wrong: what, where, and what to do about it. */
final class Failures {
  private Failures() {}

  static int badInput(ParameterException e, String[] arguments) {
    CommandLine command = e.getCommandLine();
    PrintWriter err = command.getErr();
    String name = command.getCommandSpec().qualifiedName();
    err.println(name + ": " + e.getMessage());
    if (e.getCause() instanceof NcclException nccl) {
      err.println("  remedy: " + nccl.remedy());
    }
    CommandLine.UnmatchedArgumentException.printSuggestions(e, err);
    err.println("  '" + name + " --help' lists what it takes");
    err.flush();
    return command.getCommandSpec().exitCodeOnInvalidInput();
  }

  static int failed(Exception e, CommandLine command, ParseResult parsed) {
    PrintWriter err = command.getErr();
    String name = command.getCommandSpec().qualifiedName();
    if (e instanceof NcclException nccl) {
      err.println(name + ": " + nccl.problem());
      err.println("  remedy: " + nccl.remedy());
    } else {
      err.println(name + ": a defect; please report it with what follows");
      e.printStackTrace(err);
    }
    err.flush();
    return command.getCommandSpec().exitCodeOnExecutionException();
  }
}
