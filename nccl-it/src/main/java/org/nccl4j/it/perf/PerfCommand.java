package org.nccl4j.it.perf;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import org.nccl4j.device.Device;
import org.nccl4j.device.NcclException;
import org.nccl4j.it.perf.rank.RegistrationMode;
import org.nccl4j.it.perf.report.HtmlReport;
import org.nccl4j.it.perf.report.JsonReport;
import org.nccl4j.it.perf.report.Machine;
import org.nccl4j.it.perf.report.Report;
import org.nccl4j.it.perf.report.Result;
import org.nccl4j.it.perf.report.Summary;
import org.nccl4j.it.run.ExitStatus;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Measures collectives, and checks their results. */
@Command(
    name = "perf",
    description =
        "Measures collectives by nccl-tests' rules, and checks every result against an independent "
            + "reference. Exit status 0 only if all results were right.",
    footer = PerfCommand.CLASS_PATH,
    sortOptions = false)
public final class PerfCommand implements Callable<Integer> {
  /** An option that the launcher takes for itself. */
  static final String CLASS_PATH =
      "--class-path JAR:... finds plug-ins in jars (docs/guides/tutorial/11-writing-a-transport.md).";

  /** Set to true by the launcher when standard output or standard error is a terminal. */
  private static final String OUT_WATCHED = "nccl4j.stdout.terminal";

  private static final String ERR_WATCHED = "nccl4j.stderr.terminal";

  private CommandSpec spec;
  @Mixin private PerfOptions options;

  /** Called by picocli. */
  public PerfCommand() {}

  @Spec
  void setSpec(CommandSpec newSpec) {
    spec = newSpec;
    UnsupportedOptions.addTo(newSpec);
  }

  @Override
  public Integer call() {
    PerfSettings settings = settings();
    CommandLine command = spec.commandLine();
    String version = spec.root().version()[0].replace("nccl4j ", "");
    Machine machine = Machine.local();
    Measurement measurement =
        new Measurement(settings, version, machine, command.getOut(), command.getErr());
    List<Result> results = measurement.run();
    if (command.getOut().checkError()) {
      return ExitStatus.OUTPUT_CLOSED;
    }
    PerfSettings.Who who = settings.ranks();
    Report report =
        new Report(
            machine,
            version,
            words(command),
            new Report.Setting(
                who.processes() ? "processes" : "threads",
                who.kind() == Device.Kind.CUDA ? "cuda" : "host",
                settings.how().graph() > 0,
                who.registration() != RegistrationMode.NOT),
            results,
            measurement.costs());
    settings.outputs().json().ifPresent(file -> JsonReport.write(report, file));
    settings.outputs().html().ifPresent(file -> HtmlReport.write(report, file));
    return new Summary(results).right() ? 0 : 1;
  }

  private static List<String> words(CommandLine command) {
    List<String> words = new ArrayList<>(List.of("nccl"));
    words.addAll(command.getParseResult().originalArgs());
    return words;
  }

  private static PerfSettings.Watching watching() {
    if (!Boolean.getBoolean(ERR_WATCHED)) {
      return PerfSettings.Watching.NOTHING;
    }
    return Boolean.getBoolean(OUT_WATCHED)
        ? PerfSettings.Watching.ROWS
        : PerfSettings.Watching.ERRORS;
  }

  private PerfSettings settings() {
    try {
      UnsupportedOptions.refuse(spec);
      return new Validation(options).settings(watching());
    } catch (NcclException e) {
      throw new ParameterException(spec.commandLine(), e.problem(), e);
    }
  }
}
