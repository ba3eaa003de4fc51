package org.nccl4j.it.trace;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.Writer;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.nccl4j.api.observe.flight.FlightReader;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.InvalidArgumentException;
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

/** {@code nccl trace}: a timeline of the operations of all ranks. */
@Command(
    name = "trace",
    description = {
      "Writes a timeline of the operations of all ranks.",
      "ui.perfetto.dev and chrome://tracing show it.",
      "Records running Java processes of this host and user for some seconds, and reads recordings"
          + " of Java Flight Recorder, such as other hosts'. With --job it records a job's ranks on"
          + " all hosts. Clocks of different hosts are corrected by the collectives that the ranks"
          + " have in common.",
      "Exit status 3 if no process has a communicator."
    },
    mixinStandardHelpOptions = true)
public final class TraceCommand implements Callable<Integer> {
  private static final double MOST_SECONDS = 3600;

  @Spec private CommandSpec spec;

  @Parameters(
      paramLabel = "PID|FILE.jfr",
      arity = "0..*",
      description = "Process ids and recordings; default: all processes that have a communicator.")
  private final List<String> sources = new ArrayList<>();

  @Option(
      names = "--job",
      paramLabel = "ID",
      description =
          "Record a job that was started with NCCL4J_JOB_STATE=1, on all its hosts, as nccl"
              + " diagnose asks it; repeat for each root; -: read its ids from the standard input.")
  private final List<String> jobs = new ArrayList<>();

  @Option(
      names = {"-s", "--seconds"},
      paramLabel = "SECONDS",
      defaultValue = "5",
      description = "Time to record processes, ${DEFAULT-VALUE} by default.")
  private double seconds;

  @Option(
      names = {"-o", "--output"},
      paramLabel = "FILE",
      defaultValue = "nccl4j-trace.json",
      description = "The timeline, ${DEFAULT-VALUE} by default.")
  private Path output;

  /** Called by picocli. */
  public TraceCommand() {}

  @Override
  public Integer call() {
    if (!(seconds > 0 && seconds <= MOST_SECONDS)) {
      throw new ParameterException(
          spec.commandLine(), "--seconds must be above 0, and 3600 at most");
    }
    if (!jobs.isEmpty()) {
      return traceJob();
    }
    List<Long> pids = new ArrayList<>();
    List<Path> files = new ArrayList<>();
    for (String source : new LinkedHashSet<>(sources)) {
      if (source.matches("[0-9]{1,10}") && !Files.exists(Path.of(source))) {
        pids.add(Long.parseLong(source));
      } else {
        files.add(GivenPath.of(source));
      }
    }
    if (sources.isEmpty()) {
      FlightReader.requireProcesses();
      FlightReader.ofThisHost().stream()
          .map(report -> report.process().pid())
          .distinct()
          .forEach(pids::add);
      if (pids.isEmpty()) {
        return ExitStatus.noCommunicator(spec.commandLine());
      }
    }
    List<Span> spans = new ArrayList<>();
    files.forEach(file -> spans.addAll(RecordingReader.read(file)));
    checkWritable();
    List<String> missing = new ArrayList<>();
    if (!pids.isEmpty()) {
      spans.addAll(record(pids, missing));
    }
    return finish(spans, missing, !pids.isEmpty());
  }

  private int traceJob() {
    if (!sources.isEmpty()) {
      throw new ParameterException(
          spec.commandLine(), "--job must be used without processes and files");
    }
    List<String> ids = JobIds.of(jobs);
    checkWritable();
    JobRecording recording = JobRecording.of(ids, Settings.ofProcess(Map.of()), seconds);
    return finish(recording.spans(), recording.missing(), true);
  }

  /** Writes the file, and says what it has and what is missing. */
  private int finish(List<Span> spans, List<String> missing, boolean ofProcesses) {
    write(spans, ofProcesses);
    PrintWriter err = spec.commandLine().getErr();
    missing.forEach(problem -> err.printf("missing in the timeline: %s%n", problem));
    err.flush();
    return spans.isEmpty() || !missing.isEmpty() ? 1 : 0;
  }

  /**
   * Records processes.
   *
   * @param missing gets the problems of those that give nothing
   */
  private List<Span> record(List<Long> pids, List<String> missing) {
    List<Span> spans = new ArrayList<>();
    try (LiveRecordings recordings = new LiveRecordings(pids)) {
      recordings.await(seconds);
      for (Path file : recordings.dump().values()) {
        try {
          spans.addAll(RecordingReader.read(file));
        } catch (InvalidArgumentException e) {
          missing.add(e.problem());
        }
      }
      missing.addAll(recordings.missing().values());
    }
    return spans;
  }

  /** Before anything is recorded, which takes a while; leaves the file as it was. */
  private void checkWritable() {
    try {
      OutputFile.requireWritable(output);
    } catch (IOException e) {
      throw unwritable(e);
    }
  }

  private InvalidArgumentException unwritable(IOException e) {
    return OutputFile.unwritable("-o", output, e);
  }

  private void write(List<Span> spans, boolean ofProcesses) {
    ClockOffsets offsets = ClockOffsets.of(spans);
    try (Writer to = Files.newBufferedWriter(output)) {
      TraceFile.write(spans, offsets, to);
    } catch (IOException e) {
      throw unwritable(e);
    }
    PrintWriter out = spec.commandLine().getOut();
    out.printf(
        "%s: %d spans of %d processes; open it at ui.perfetto.dev or chrome://tracing%n",
        output, spans.size(), spans.stream().map(Span::process).distinct().count());
    offsets.text().forEach(line -> out.println("  " + line));
    long leftOut = spans.stream().mapToLong(Span::leftOut).sum();
    if (leftOut > 0) {
      out.printf(
          "  about %d operations were left out: there were more than a rank records"
              + " (NCCL4J_TRACE_RATE)%n",
          leftOut);
    }
    if (spans.isEmpty()) {
      out.println(
          ofProcesses
              ? "  no operation ended in %s s; record for longer with -s"
                  .formatted(BigDecimal.valueOf(seconds).stripTrailingZeros().toPlainString())
              : "  there was no operation; a recording needs the event org.nccl4j.Operation enabled");
    }
    out.flush();
  }
}
