package org.nccl4j.it.doctor;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import org.nccl4j.api.observe.Diagnosis;
import org.nccl4j.api.observe.FailoverLines;
import org.nccl4j.api.observe.JobJson;
import org.nccl4j.api.observe.JobReport;
import org.nccl4j.api.observe.LinkSpeeds;
import org.nccl4j.api.observe.flight.FlightReader;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.os.WholeFile;
import org.nccl4j.it.file.GivenPath;
import org.nccl4j.it.file.OutputFile;
import org.nccl4j.it.run.ExitStatus;
import org.nccl4j.it.run.JobIds;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code nccl diagnose}: shows which ranks are behind, and which rank waits for which. */
@Command(
    name = "diagnose",
    description = {
      "Prints one sentence for each communicator: the ranks that are behind, their operation, and"
          + " which rank waits for which; then links over networks that are much slower than"
          + " others.",
      "Reads the flight recorders of this host's and user's processes, even of stopped or hanging"
          + " ones, and files written by --save or NCCL4J_FLIGHT_FILE, such as other hosts'.",
      "With --job it queries all hosts of a running job, through the bootstrap root.",
      "Exit status 0 if no rank is silent, stopped, behind or failed, 3 if no process has a"
          + " communicator, else 1. A rank is behind once others have waited for a second."
    },
    mixinStandardHelpOptions = true)
public final class DiagnoseCommand implements Callable<Integer> {
  @Spec private CommandSpec spec;

  @Parameters(
      paramLabel = "PID|FILE",
      arity = "0..*",
      description = "Process ids and files; default: all processes that can be read.")
  private final List<String> sources = new ArrayList<>();

  @Option(
      names = {"-t", "--table"},
      description =
          "Also print each rank's last operations and their states: enqueued behind others in a"
              + " stream, launched, waiting for a rank, done.")
  private boolean table;

  @Option(
      names = "--save",
      paramLabel = "DIRECTORY",
      description = "Also copy the processes' recorders to this directory.")
  private Path directory;

  @Option(
      names = "--job",
      paramLabel = "ID",
      description =
          "Query a job that was started with NCCL4J_JOB_STATE=1, by its unique id, or by its"
              + " NCCL_COMM_ID with the same NCCL4J_COMM_SECRET; repeat for each root; -: read the"
              + " ids from the standard input, since other users can read command lines.")
  private final List<String> jobs = new ArrayList<>();

  @Option(names = "--json", description = "Print JSON; with --job.")
  private boolean json;

  private static final int SHOWN = 8;

  /** Called by picocli. */
  public DiagnoseCommand() {}

  @Override
  public Integer call() {
    PrintWriter out = spec.commandLine().getOut();
    if (!jobs.isEmpty()) {
      return diagnoseJob(out);
    }
    if (json) {
      throw new ParameterException(spec.commandLine(), "--json needs --job");
    }
    List<RankReport> reports = new ArrayList<>();
    Set<Long> processes = new LinkedHashSet<>();
    if (sources.isEmpty()) {
      FlightReader.requireProcesses();
      reports.addAll(FlightReader.ofThisHost());
      reports.forEach(report -> processes.add(report.process().pid()));
    }
    List<InvalidArgumentException> unread = new ArrayList<>();
    for (String source : new LinkedHashSet<>(sources)) { // one that is named twice counts once
      try {
        if (isProcess(source)) {
          reports.addAll(FlightReader.ofProcess(Long.parseLong(source)));
          processes.add(Long.parseLong(source));
        } else {
          reports.addAll(FlightReader.ofFile(GivenPath.of(source)));
        }
      } catch (InvalidArgumentException e) {
        unread.add(e);
      }
    }
    if (reports.isEmpty() && !unread.isEmpty()) {
      throw unread.get(0);
    }
    if (reports.isEmpty()) {
      return ExitStatus.noCommunicator(spec.commandLine());
    }
    Collection<List<RankReport>> communicators = Diagnosis.byCommunicator(reports).values();
    communicators.forEach(
        ranks -> {
          out.println(Diagnosis.sentence(ranks) + processes(ranks));
          FailoverLines.of(ranks).text(System.currentTimeMillis()).forEach(out::println);
          LinkSpeeds.of(ranks).text().forEach(out::println);
          if (table) {
            ranks.forEach(rank -> print(out, rank));
          }
        });
    boolean isSaved = directory == null || save(processes);
    unread.forEach(e -> spec.commandLine().getErr().println(e.getMessage()));
    boolean isHealthy = communicators.stream().allMatch(Diagnosis::isHealthy);
    return unread.isEmpty() && isSaved && isHealthy ? 0 : 1;
  }

  private int diagnoseJob(PrintWriter out) {
    if (!sources.isEmpty() || table || directory != null) {
      throw new ParameterException(spec.commandLine(), "--job can be combined only with --json");
    }
    JobReport job = JobReport.ask(JobIds.of(jobs), Settings.ofProcess(Map.of()));
    if (json) {
      out.println(JobJson.of(job));
    } else {
      new JobPrinter(job).print(out);
    }
    return job.isHealthy() ? 0 : 1;
  }

  private static boolean isProcess(String source) {
    return source.matches("[0-9]{1,10}") && !Files.exists(Path.of(source));
  }

  /** The processes of a communicator: several programs may have communicators of one name. */
  private static String processes(List<RankReport> ranks) {
    List<Long> pids = ranks.stream().map(r -> r.process().pid()).distinct().sorted().toList();
    return (pids.size() == 1 ? " (process " : " (processes ")
        + pids.stream().limit(SHOWN).map(String::valueOf).collect(Collectors.joining(", "))
        + (pids.size() > SHOWN ? " and %d more)".formatted(pids.size() - SHOWN) : ")");
  }

  private static void print(PrintWriter out, RankReport rank) {
    out.printf(
        "  rank %d of %d, %s%s: %d operations launched, %s%d ended%s%s%n",
        rank.rank(),
        rank.nRanks(),
        rank.process(),
        rank.process().state().isEmpty() ? "" : " (state " + rank.process().state() + ")",
        rank.launched(),
        rank.upTo() > rank.ended() + 1 ? "at least " : "",
        rank.ended(),
        rank.waitsFor() < 0 ? "" : ", waits for rank " + rank.waitsFor(),
        rank.failed() ? ", failed" : "");
    int from = Math.max(0, rank.operations().size() - 5);
    rank.operations()
        .subList(from, rank.operations().size())
        .forEach(
            op -> out.printf("    %d: %s, %s%n", op.number(), op.text(), state(rank, op.number())));
  }

  /** Returns an operation's state; the first unfinished one is at most number {@code upTo}. */
  private static String state(RankReport rank, long operation) {
    long first = rank.ended() + 1;
    if (operation < first) {
      return "done";
    }
    if (operation < rank.upTo()) {
      return "perhaps done";
    }
    if (operation > Math.max(first, rank.upTo())) {
      return "enqueued";
    }
    if (rank.upTo() > first) {
      return "not done";
    }
    return rank.waitsFor() < 0 ? "launched" : "waiting for rank " + rank.waitsFor();
  }

  /** Copies the recorders of processes; false if one or a file is not copied, which it says. */
  private boolean save(Set<Long> processes) {
    List<String> left =
        new ArrayList<>(
            sources.stream()
                .filter(source -> !isProcess(source))
                .map(file -> file + " is not saved again: it is a file, not a process")
                .toList());
    for (long pid : processes) {
      Optional<byte[]> bytes = FlightReader.copy(pid);
      Path file = directory.resolve("nccl4j-" + pid + ".flight");
      try {
        Files.createDirectories(directory);
        if (bytes.isPresent()) {
          WholeFile.write(file, bytes.get());
        } else {
          left.add("process %d is not saved: it has ended".formatted(pid));
        }
      } catch (IOException e) {
        throw OutputFile.unwritable("--save", file, e);
      }
    }
    left.forEach(each -> spec.commandLine().getErr().println("nccl diagnose --save: " + each));
    return left.isEmpty();
  }
}
