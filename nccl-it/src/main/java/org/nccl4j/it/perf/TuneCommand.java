package org.nccl4j.it.perf;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import org.nccl4j.api.Devices;
import org.nccl4j.api.plan.trial.TrialFile;
import org.nccl4j.api.settings.IoErrorText;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.it.file.OutputFile;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/**
 * {@code nccl tune FILE}: measures every way of every collective, for NCCL4J_COSTS_FILE; with
 * {@code --from FOLDER}, learns from the trials of a job instead.
 */
@Command(
    name = "tune",
    description = {
      "Measures every algorithm and protocol of every collective, over connections and on"
          + " windows, among ranks of this machine, and writes the times to a file. With --from,"
          + " takes them from a job that runs or has run with NCCL4J_TRIALS=FOLDER, and measures"
          + " nothing.",
      "With NCCL4J_COSTS_FILE=FILE the planner chooses by these times: ./nccl perf ... --explain"
          + " shows them."
    },
    footer = PerfCommand.CLASS_PATH,
    mixinStandardHelpOptions = true)
public final class TuneCommand implements Callable<Integer> {
  private static final int MOST_RANKS = 64;

  @Spec private CommandSpec spec;

  @Parameters(paramLabel = "FILE", description = "Output file; an existing file is replaced.")
  private Path file;

  @Option(
      names = "--from",
      paramLabel = "FOLDER",
      description = "The folder that NCCL4J_TRIALS names on the ranks of a job.")
  private Path trials;

  @Option(
      names = "--device",
      paramLabel = "DEVICE",
      description = "host or cuda (default: cuda if there is one, else host).")
  private Device.Kind kind;

  @Option(
      names = {"-t", "--nthreads"},
      paramLabel = "N",
      description = "Ranks, each a thread (default: 2 on the host, one for each GPU).")
  private Integer ranks;

  @Option(
      names = {"-b", "--minbytes"},
      paramLabel = "SIZE",
      defaultValue = "128",
      description = "The smallest size of the whole data (default: ${DEFAULT-VALUE}).")
  private String least;

  @Option(
      names = {"-e", "--maxbytes"},
      paramLabel = "SIZE",
      defaultValue = "64M",
      description =
          "The largest size; each size is four times the previous one (default: ${DEFAULT-VALUE}).")
  private String most;

  /** Called by picocli. */
  public TuneCommand() {}

  @Override
  public Integer call() {
    if (trials != null) {
      return learn();
    }
    long from = ByteSize.parse("-b", least).bytes();
    long to = ByteSize.parse("-e", most).bytes();
    if (from < 4 || to < from) {
      throw new InvalidArgumentException(
          ErrorId.OPTION,
          "-b %s and -e %s: sizes from %d to %d bytes".formatted(least, most, from, to),
          "begin with 4 or more, end with no less");
    }
    List<Device> devices = devices();
    checkWritable();
    List<String> lines = new ArrayList<>();
    lines.add("# Microseconds by nccl4j's tune: float32 sums, %d ranks.".formatted(devices.size()));
    lines.add("# ranks, collective, algorithm, protocol, then bytes:microseconds");
    lines.add("device " + devices.get(0).name());
    PrintWriter out = spec.commandLine().getOut();
    try (AlgorithmTimes times = new AlgorithmTimes(devices, to)) {
      times
          .noWindows()
          .ifPresent(why -> out.println("# algorithms on windows are left out: " + why));
      times.measure(
          from,
          line -> {
            lines.add(line);
            out.println(line);
            out.flush();
          });
    }
    write(lines);
    return 0;
  }

  private int learn() {
    for (String measuring : List.of("--device", "-t", "-b", "-e")) {
      if (spec.commandLine().getParseResult().hasMatchedOption(measuring)) {
        throw new InvalidArgumentException(
            ErrorId.OPTION,
            "%s says what is measured, and with --from nothing is".formatted(measuring),
            "leave one of them out");
      }
    }
    checkWritable();
    LearnedTable table = LearnedTable.of(TrialFile.readAll(trials));
    PrintWriter out = spec.commandLine().getOut();
    table.report().forEach(out::println);
    out.printf(
        Locale.ROOT, "# the trials took %.2f %% of the time of these calls%n", 100 * table.share());
    write(table.lines());
    return 0;
  }

  private void write(List<String> lines) {
    try {
      Files.write(file, lines, StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw unwritable(e);
    }
    spec.commandLine()
        .getOut()
        .println("# written to %1$s; use it with NCCL4J_COSTS_FILE=%1$s".formatted(file));
  }

  /** Before anything is measured, which may take minutes; leaves the file as it was. */
  private void checkWritable() {
    try {
      OutputFile.requireWritable(file);
    } catch (IOException e) {
      throw unwritable(e);
    }
  }

  private SystemErrorException unwritable(IOException e) {
    return new SystemErrorException(
        ErrorId.UNWRITABLE,
        "the table cannot be written to %s (%s)".formatted(file, IoErrorText.of(e)),
        "name a file in an existing directory that you may write to",
        e);
  }

  private List<Device> devices() {
    CudaDevices gpus = Devices.cuda();
    boolean cuda = kind == null ? gpus.absence().isEmpty() : kind == Device.Kind.CUDA;
    if (!cuda) {
      return Collections.nCopies(checked(ranks == null ? 2 : ranks), Devices.host());
    }
    int n = ranks == null ? Math.max(2, gpus.list().size()) : checked(ranks);
    List<Device> chosen = new ArrayList<>();
    for (int rank = 0; rank < n; rank++) {
      chosen.add(gpus.device(rank));
    }
    return chosen;
  }

  private static int checked(int n) {
    if (n < 2 || n > MOST_RANKS) {
      throw new InvalidArgumentException(
          ErrorId.OPTION,
          "-t %d is out of range".formatted(n),
          "use a number from 2 to %d".formatted(MOST_RANKS));
    }
    return n;
  }
}
