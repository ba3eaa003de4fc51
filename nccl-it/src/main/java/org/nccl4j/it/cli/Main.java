package org.nccl4j.it.cli;

import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Locale;
import org.nccl4j.it.doctor.DiagnoseCommand;
import org.nccl4j.it.doctor.DoctorCommand;
import org.nccl4j.it.file.GivenPath;
import org.nccl4j.it.perf.PerfCommand;
import org.nccl4j.it.perf.RankProcessCommand;
import org.nccl4j.it.perf.TuneCommand;
import org.nccl4j.it.plan.PlanCommand;
import org.nccl4j.it.run.RunCommand;
import org.nccl4j.it.top.TopCommand;
import org.nccl4j.it.topo.TopoCommand;
import org.nccl4j.it.trace.TraceCommand;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.HelpCommand;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The command line of nccl4j, started by the script {@code nccl}. */
@Command(
    name = "nccl",
    description = "Collective communication for the JVM: measure it, run programs with it.",
    footer = {
      "",
      "./nccl with COMMAND runs a program for NCCL with nccl4j:",
      "  see docs/guides/drop-in.md.",
      "./nccl dist packs an archive with a Java runtime (./nccl dist --help).",
      "./nccl COMMAND --class-path JAR:... finds plug-ins in jars (except run).",
    },
    mixinStandardHelpOptions = true,
    versionProvider = Version.class,
    subcommands = {
      PerfCommand.class,
      TuneCommand.class,
      RunCommand.class,
      TopoCommand.class,
      PlanCommand.class,
      DoctorCommand.class,
      DiagnoseCommand.class,
      TopCommand.class,
      TraceCommand.class,
      DeviceHeadersCommand.class,
      RankProcessCommand.class,
      HelpCommand.class
    })
public final class Main implements Runnable {
  @Spec private CommandSpec spec;

  /** Called by picocli. */
  public Main() {}

  /**
   * Runs a command and ends the process with its exit status. Words are English, and so are numbers
   * in all languages: programs read them.
   */
  public static void main(String[] arguments) {
    Locale.setDefault(Locale.ROOT);
    PrintWriter out = new PrintWriter(System.out, true, StandardCharsets.UTF_8);
    PrintWriter err = new PrintWriter(System.err, true, StandardCharsets.UTF_8);
    int status = run(out, err, arguments);
    out.flush();
    System.exit(status);
  }

  /**
   * Runs a command.
   *
   * @return its exit status
   */
  public static int run(PrintWriter out, PrintWriter err, String... arguments) {
    CommandLine main = new CommandLine(new Main());
    giveVersion(main);
    // Options after the program are the program's.
    main.getSubcommands().get("run").setStopAtPositional(true);
    return main.setOut(out)
        .setErr(err)
        .setCaseInsensitiveEnumValuesAllowed(true)
        .setUsageHelpAutoWidth(true)
        .registerConverter(Path.class, new GivenPath())
        .setExpandAtFiles(false) // they are the words of the program that is run
        .setParameterExceptionHandler(Failures::badInput)
        .setExecutionExceptionHandler(Failures::failed)
        .execute(arguments);
  }

  /** A command has no version of its own, and picocli would print an empty one. */
  private static void giveVersion(CommandLine command) {
    for (CommandLine each : command.getSubcommands().values()) {
      each.getCommandSpec().versionProvider(new Version());
      giveVersion(each);
    }
  }

  @Override
  public void run() {
    throw new ParameterException(
        spec.commandLine(), "no command is given: use " + Failures.commands(spec));
  }
}
