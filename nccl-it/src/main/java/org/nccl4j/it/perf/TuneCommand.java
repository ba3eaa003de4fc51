package org.nccl4j.it.perf;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.Callable;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.LaunchEnvironment;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.plan.trial.TrialFile;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.device.os.IoErrorText;
import org.nccl4j.it.file.OutputFile;
import org.nccl4j.it.perf.rank.RankThreads;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/**
 * {@code nccl tune FILE}: measures every way of every collective, for NCCL4J_COSTS_FILE, among
 * ranks of this process, or with {@code --launched} as one rank of a job; with {@code --from
 * FOLDER}, learns from the trials of a job instead.
 */
@Command(
    name = "tune",
    description = {
      "Measures every algorithm and protocol of every collective, over connections and on"
          + " windows, among ranks of this machine, and writes the times to a file. With --from,"
          + " takes them from a job that runs or has run with NCCL4J_TRIALS=FOLDER, and measures"
          + " nothing.",
      "With --launched, this process is one rank of a job on one host or several, which nccl run,"
          + " mpirun, srun or torchrun has started; rank 0 writes the file.",
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
      names = "--launched",
      description = "Measure as the rank that a launcher has given this process.")
  private boolean launched;

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
    Optional<LaunchEnvironment> place = place();
    List<Device> devices = place.map(of -> List.of(device(of))).orElseGet(this::devices);
    boolean writes = place.isEmpty() || place.get().rank() == 0;
    if (writes) {
      checkWritable();
    }
    List<String> lines = new ArrayList<>();
    try (AlgorithmTimes times = times(place, devices, to)) {
      lines.addAll(times.header());
      times
          .noWindows()
          .filter(why -> writes)
          .ifPresent(why -> say("# algorithms on windows are left out: " + why));
      times.measure(
          from,
          line -> {
            lines.add(line);
            if (writes) {
              say(line);
            }
          });
    }
    if (writes) {
      write(lines);
    }
    return 0;
  }

  private void say(String line) {
    PrintWriter out = spec.commandLine().getOut();
    out.println(line);
    out.flush();
  }

  /** This process's place in a job; empty where the ranks are threads. */
  private Optional<LaunchEnvironment> place() {
    if (!launched) {
      return Optional.empty();
    }
    if (ranks != null) {
      throw new InvalidArgumentException(
          ErrorId.OPTION,
          "-t says how many ranks there are, and with --launched the launcher does",
          "leave one of them out");
    }
    LaunchEnvironment place = LaunchEnvironment.required();
    if (place.nRanks() == 1) {
      throw new InvalidArgumentException(
          ErrorId.OPTION, "the launcher has started one rank", "start two or more");
    }
    return Optional.of(place);
  }

  private Device device(LaunchEnvironment place) {
    CudaDevices gpus = Devices.cuda();
    return isCuda(gpus)
        ? gpus.device(place.localRank() % Math.max(1, gpus.list().size()))
        : Devices.host();
  }

  private static AlgorithmTimes times(
      Optional<LaunchEnvironment> place, List<Device> devices, long to) {
    RankThreads threads = AlgorithmTimes.newThreads(devices.size());
    try {
      return new AlgorithmTimes(ranks(place, devices, threads), threads, to);
    } catch (RuntimeException e) {
      threads.close();
      throw e;
    }
  }

  private static List<Communicator> ranks(
      Optional<LaunchEnvironment> place, List<Device> devices, RankThreads threads) {
    return place.isEmpty()
        ? threads.create(devices, CommunicatorConfig.defaults())
        : List.of(
            Communicator.initRank(
                place.get().nRanks(),
                place.get().uniqueId().orElseGet(UniqueId::create),
                place.get().rank(),
                devices.get(0)));
  }

  private int learn() {
    for (String measuring : List.of("--device", "-t", "-b", "-e", "--launched")) {
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
    table.notes().forEach(note -> out.println("# " + note));
    out.printf(
        Locale.ROOT, "# the trials took %.2f %% of the time of these calls%n", 100 * table.share());
    write(table.lines());
    return 0;
  }

  private void write(List<String> lines) {
    try {
      OutputFile.replace(file, lines);
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
    if (!isCuda(gpus)) {
      return Collections.nCopies(checked(ranks == null ? 2 : ranks), Devices.host());
    }
    int n = ranks == null ? Math.max(2, gpus.list().size()) : checked(ranks);
    List<Device> chosen = new ArrayList<>();
    for (int rank = 0; rank < n; rank++) {
      chosen.add(gpus.device(rank));
    }
    return chosen;
  }

  private boolean isCuda(CudaDevices gpus) {
    return kind == null ? gpus.absence().isEmpty() : kind == Device.Kind.CUDA;
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
