package org.nccl4j.it.cli;

import java.io.PrintWriter;
import java.nio.file.InvalidPathException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.Collectors;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.it.file.GivenPath;
import org.nccl4j.topo.TopologyException;
import picocli.CommandLine;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.ParseResult;
import picocli.CommandLine.UnmatchedArgumentException;

/** Prints an error for the user: the fact, the place, and the remedy. */
final class Failures {
  /** The commands of the script {@code nccl} itself. */
  private static final List<String> OF_THE_SCRIPT = List.of("with", "dist");

  private Failures() {}

  static int badInput(ParameterException e, String[] arguments) {
    CommandLine command = e.getCommandLine();
    PrintWriter err = command.getErr();
    String name = command.getCommandSpec().qualifiedName();
    err.println(name + ": " + (e instanceof UnmatchedArgumentException u ? unknown(u) : text(e)));
    Optional<NcclException> cause = cause(e);
    cause.ifPresent(nccl -> err.println("  remedy: " + nccl.remedy()));
    UnmatchedArgumentException.printSuggestions(e, err);
    err.println(help(command, cause.isEmpty()));
    err.flush();
    return command.getCommandSpec().exitCodeOnInvalidInput();
  }

  private static Optional<NcclException> cause(Throwable e) {
    Throwable cause = e.getCause();
    return cause == null || cause instanceof NcclException
        ? Optional.ofNullable((NcclException) cause)
        : cause(cause);
  }

  /**
   * The message in our words: picocli says "option" twice of a value without "=", names types of
   * Java, and begins with a capital.
   */
  private static String text(ParameterException e) {
    String unknown = "Unknown subcommand "; // of picocli's help
    if (String.valueOf(e.getMessage()).startsWith(unknown)) {
      String word = e.getMessage().substring(unknown.length()).replaceFirst("[.\\s]+$", "");
      CommandSpec spec = e.getCommandLine().getCommandSpec();
      return "unknown command "
          + word
          + ": use "
          + commands(spec.parent() == null ? spec : spec.parent());
    }
    String text =
        String.valueOf(e.getMessage())
            .replace("option option", "option")
            .replaceFirst(" is not an? (int|long)$", " is not a whole number")
            .replaceFirst(" is not an? (double|float)$", " is not a number");
    return text.matches("(?s)[A-Z][a-z].*")
        ? text.substring(0, 1).toLowerCase(Locale.ROOT) + text.substring(1)
        : text;
  }

  /** Names the first word that is too much, and where it stands for a command, the commands. */
  private static String unknown(UnmatchedArgumentException e) {
    String word = e.getUnmatched().get(0);
    CommandSpec command = e.getCommandLine().getCommandSpec();
    if (word.startsWith("-")) {
      return "unknown option '" + word + "'";
    }
    return command.subcommands().isEmpty()
        ? "'" + word + "' is one argument too many"
        : "unknown command '" + word + "': use " + commands(command);
  }

  /** The commands that a user may give, as in a sentence. */
  static String commands(CommandSpec command) {
    List<String> names =
        command.subcommands().values().stream()
            .map(CommandLine::getCommandSpec)
            .filter(spec -> !spec.usageMessage().hidden())
            .map(CommandSpec::name)
            .filter(name -> !name.equals("help"))
            .distinct()
            .collect(Collectors.toCollection(ArrayList::new));
    if (command.parent() == null) {
      names.addAll(OF_THE_SCRIPT);
    }
    int last = names.size() - 1;
    return String.join(", ", names.subList(0, last)) + " or " + names.get(last);
  }

  private static String help(CommandLine command, boolean onlyRemedy) {
    String name = command.getCommandSpec().qualifiedName();
    return onlyRemedy
        ? "  remedy: '" + name + " --help' lists the options"
        : "  '" + name + " --help' lists its options";
  }

  static int failed(Exception thrown, CommandLine command, ParseResult parsed) {
    Exception e = thrown instanceof InvalidPathException path ? GivenPath.refused(path) : thrown;
    PrintWriter err = command.getErr();
    String name = command.getCommandSpec().qualifiedName();
    if (e instanceof TopologyException topology) {
      err.println(name + ": " + topology.problem());
      err.println("  remedy: " + topology.remedy());
    } else if (e instanceof NcclException nccl) {
      err.println(name + ": " + nccl.problem());
      err.println("  remedy: " + nccl.remedy());
      if (nccl.id() == ErrorId.OPTION || nccl.id() == ErrorId.OPTIONS) {
        err.println(help(command, false));
        err.flush();
        return command.getCommandSpec().exitCodeOnInvalidInput();
      }
    } else {
      err.println(name + ": a defect; please report it with what follows");
      e.printStackTrace(err);
    }
    err.flush();
    return command.getCommandSpec().exitCodeOnExecutionException();
  }
}
