package org.nccl4j.it.top;

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.function.Supplier;
import org.nccl4j.api.observe.JobReport;
import org.nccl4j.api.observe.flight.FlightReader;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.support.Patience;
import org.nccl4j.it.run.ExitStatus;
import org.nccl4j.it.run.JobIds;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code nccl top}: the rates and waits of running communicators, again and again. */
@Command(
    name = "top",
    description = {
      "Shows operations a second, bandwidths and waits of each rank of running communicators, and"
          + " which ranks wait longest for which; and slow links over networks.",
      "Reads the flight recorders of processes of this host and user, which costs the processes"
          + " nothing; with --job it queries a job's ranks on all hosts.",
      "Bandwidths are nccl-tests' algorithm and bus bandwidth, over the whole time between two"
          + " frames.",
      "Exit status 3 if no process has a communicator."
    },
    mixinStandardHelpOptions = true)
public final class TopCommand implements Callable<Integer> {
  /** Looks at the recorders in a frame; a recorder is observed 20 times a second. */
  private static final int LOOKS = 8;

  private static final double SECOND_NANOS = 1e9;
  private static final double LEAST_SECONDS = 0.1;
  private static final double MOST_SECONDS = 3600;

  /** Moves the cursor home and clears the screen. */
  private static final String CLEAR = "\033[H\033[2J\033[3J";

  @Spec private CommandSpec spec;

  @Parameters(
      paramLabel = "PID",
      arity = "0..*",
      description = "Process ids; default: all processes that can be read.")
  private final List<Long> pids = new ArrayList<>();

  @Option(
      names = "--job",
      paramLabel = "ID",
      description =
          "Query a job that was started with NCCL4J_JOB_STATE=1, as nccl diagnose does; repeat"
              + " for each root; -: read its ids from the standard input.")
  private final List<String> jobs = new ArrayList<>();

  @Option(
      names = {"-i", "--interval"},
      paramLabel = "SECONDS",
      defaultValue = "1",
      description = "Time between two frames, ${DEFAULT-VALUE} by default.")
  private double interval;

  @Option(
      names = {"-n", "--frames"},
      paramLabel = "N",
      defaultValue = "0",
      description = "Number of frames; 0, the default: until Ctrl-C.")
  private long frames;

  @Option(names = "--json", description = "Print each frame as one line of JSON.")
  private boolean json;

  @Option(
      names = "--web",
      paramLabel = "PORT",
      description =
          "Serve a page that also draws the hosts' machines with their traffic, and /metrics for"
              + " Prometheus, at this port of the loopback address instead of printing; 0: any port.")
  private Integer port;

  @Option(
      names = "--machine",
      paramLabel = "[HOST=]FILE",
      description =
          "With --web: the topology file of a host, as nccl topo detect --dump writes it there;"
              + " without HOST=, of all hosts that have none. Default: this host's machine is"
              + " detected.")
  private final List<String> machines = new ArrayList<>();

  /** Null without --web. */
  private HostMachines known;

  private final JobProcesses ofJob = new JobProcesses();
  private boolean hasLooked;

  /** Called by picocli. */
  public TopCommand() {}

  @Override
  public Integer call() {
    check(interval >= LEAST_SECONDS && interval <= MOST_SECONDS, "--interval", "0.1 to 3600");
    check(frames >= 0, "--frames", "0 or more");
    check(port == null || port >= 0 && port <= 65535, "--web", "0 to 65535");
    check(port == null || !json, "--web", "used without --json");
    check(machines.isEmpty() || port != null, "--machine", "used with --web");
    check(jobs.isEmpty() || pids.isEmpty(), "--job", "used without processes");
    PrintWriter out = spec.commandLine().getOut();
    try (FrameServer server = port == null ? null : serve()) {
      if (server != null) {
        out.println("open " + server.address());
        out.flush();
      }
      return run(source(), out, server);
    }
  }

  private FrameServer serve() {
    HostMachines found = new HostMachines(machines);
    known = found;
    return FrameServer.open(
        port,
        new TrafficMap(found::of),
        process -> jobs.isEmpty() ? isRunning(process.pid()) : ofJob.has(process));
  }

  private void check(boolean right, String option, String range) {
    if (!right) {
      throw new ParameterException(spec.commandLine(), "%s must be %s".formatted(option, range));
    }
  }

  private Supplier<List<RankReport>> source() {
    if (!jobs.isEmpty()) {
      Settings settings = Settings.ofProcess(Map.of());
      List<String> ids = JobIds.of(jobs);
      return () -> {
        JobReport report = JobReport.ask(ids, settings);
        ofJob.see(report);
        return report.communicators().stream().flatMap(each -> each.ranks().stream()).toList();
      };
    }
    FlightReader.requireProcesses();
    return pids.isEmpty() ? FlightReader::ofThisHost : this::named;
  }

  /**
   * The ranks of the processes that were named: all at the first look, then those that are left.
   */
  private List<RankReport> named() {
    List<RankReport> reports = new ArrayList<>();
    for (long pid : new LinkedHashSet<>(pids)) { // one that is named twice counts once
      try {
        reports.addAll(FlightReader.ofProcess(pid));
      } catch (InvalidArgumentException e) {
        if (!hasLooked) {
          throw e;
        }
      }
    }
    return reports;
  }

  private static boolean isRunning(long pid) {
    return ProcessHandle.of(pid).isPresent();
  }

  /** Looks again. What is served goes on without a job that does not answer. */
  private List<RankReport> again(Supplier<List<RankReport>> source) {
    try {
      return source.get();
    } catch (NcclException e) {
      if (port == null) {
        throw e;
      }
      spec.commandLine().getErr().println(e.getMessage());
      return List.of();
    }
  }

  private int run(Supplier<List<RankReport>> source, PrintWriter out, FrameServer server) {
    List<RankReport> reports = source.get();
    hasLooked = true;
    if (reports.isEmpty() && pids.isEmpty() && frames > 0 && server == null) {
      return ExitStatus.noCommunicator(spec.commandLine());
    }
    FrameText text = new FrameText(out);
    boolean screen = !json && frames != 1 && System.console() != null;
    Meter meter = new Meter(reports, System.nanoTime());
    for (long n = 0; frames == 0 || n < frames; n++) {
      Frame frame = next(source, meter);
      if (server != null) {
        server.show(frame);
        tellUnknownHosts(frame, n == frames - 1);
      } else if (json) {
        out.println(FrameJson.of(frame));
        out.flush();
      } else {
        out.print(screen ? CLEAR : "");
        text.print(frame);
      }
      boolean isOver =
          server == null && !pids.isEmpty() && pids.stream().noneMatch(TopCommand::isRunning);
      if (isOver || out.checkError()) {
        return 0; // its processes have ended, or its reader is gone
      }
    }
    return 0;
  }

  /** Says which hosts of --machine have no ranks. */
  private void tellUnknownHosts(Frame frame, boolean isLast) {
    if (known != null) {
      known.unknown(frame, isLast).ifPresent(spec.commandLine().getErr()::println);
    }
  }

  private Frame next(Supplier<List<RankReport>> source, Meter meter) {
    long begin = System.nanoTime();
    int looks = jobs.isEmpty() ? LOOKS : 1;
    for (int look = 1; look < looks; look++) {
      sleepUntil(begin + (long) (interval * SECOND_NANOS * look / looks));
      meter.look(again(source));
    }
    sleepUntil(begin + (long) (interval * SECOND_NANOS));
    List<RankReport> last = again(source);
    return meter
        .frame(last, System.nanoTime(), System.currentTimeMillis())
        .without(ofJob.unreached());
  }

  private static void sleepUntil(long nanos) {
    long left = nanos - System.nanoTime();
    while (left > 0) {
      Patience.sleep(left);
      left = nanos - System.nanoTime();
    }
  }
}
