package org.nccl4j.api.observe;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.nccl4j.api.bootstrap.BootstrapId;
import org.nccl4j.api.bootstrap.BootstrapOptions;
import org.nccl4j.api.bootstrap.BootstrapRoot;
import org.nccl4j.api.bootstrap.JobObserver;
import org.nccl4j.api.bootstrap.root.RankState;
import org.nccl4j.api.observe.flight.FlightReader;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Operation;
import org.nccl4j.api.observe.flight.RankReport.ProcessReport;
import org.nccl4j.api.observe.flight.StateMessage;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.os.ThisProcess;

/**
 * The state of a job that runs, as its bootstrap's roots collect it from all ranks.
 *
 * @param nRanks of the communicator with this id; 0 while no rank has come
 * @param formed whether all ranks have come
 * @param ranks those that are connected, by rank
 * @param gone ranks that have left, or before the communicator is formed have not come
 * @param communicators with at least one report each: the first one and its splits
 * @param unreached roots that gave no answer, while others did; their ranks are among those gone
 */
public record JobReport(
    int nRanks,
    boolean formed,
    List<Rank> ranks,
    List<Integer> gone,
    List<CommunicatorState> communicators,
    List<UnreachedRoot> unreached) {
  private static final Duration LIMIT = Duration.ofSeconds(10);

  /** Time for the other roots after the first answer: the patience of a root and some more. */
  private static final Duration FURTHER = Duration.ofSeconds(3);

  /**
   * A root that gave no answer.
   *
   * @param where its addresses
   * @param reason for messages
   */
  public record UnreachedRoot(String where, String reason) {}

  /**
   * A rank of the job.
   *
   * @param silent true if it was asked, and gave no answer in time
   */
  public record Rank(int rank, ProcessReport process, boolean silent) {}

  /**
   * A rank that has not called the collective that others have waited in for a second.
   *
   * @param collectives number of collectives by which it is behind
   */
  public record Behind(RankReport report, long collectives) {}

  /**
   * A communicator.
   *
   * @param operation that most ranks are in; null if none is under way
   * @param inOperation number of these ranks
   * @param speeds of its links over networks
   */
  public record CommunicatorState(
      List<RankReport> ranks,
      List<Behind> behind,
      Operation operation,
      int inOperation,
      LinkSpeeds speeds) {
    /** The state in one sentence. */
    public String sentence() {
      return Diagnosis.sentence(ranks);
    }

    private static CommunicatorState of(List<RankReport> ranks) {
      List<RankReport> sorted =
          ranks.stream().sorted(Comparator.comparingInt(RankReport::rank)).toList();
      Map<Long, List<Operation>> current = new TreeMap<>(Comparator.reverseOrder());
      sorted.stream()
          .map(RankReport::current)
          .filter(operation -> operation != null)
          .forEach(
              operation ->
                  current
                      .computeIfAbsent(operation.collective(), number -> new ArrayList<>())
                      .add(operation));
      List<Operation> most =
          current.values().stream().max(Comparator.comparingInt(List::size)).orElse(List.of());
      long furthest =
          sorted.stream()
              .filter(
                  report ->
                      report.stillMillis() >= Diagnosis.STILL_MILLIS && report.current() != null)
              .mapToLong(report -> report.current().collective())
              .max()
              .orElse(0);
      List<Behind> behind =
          sorted.stream()
              .filter(report -> called(report) < furthest)
              .map(report -> new Behind(report, furthest - called(report)))
              .toList();
      return new CommunicatorState(
          sorted, behind, most.isEmpty() ? null : most.get(0), most.size(), LinkSpeeds.of(sorted));
    }

    private static long called(RankReport report) {
      return report.last() == null ? 0 : report.last().collective();
    }
  }

  /**
   * Asks the roots of a job, all at the same time; takes little more than a second at most, if they
   * can be reached. One that cannot is named in the report, and delays it by three seconds at most.
   *
   * @param ids a unique id's text for each root, or the NCCL_COMM_ID
   * @param settings secret and certificates, as the ranks have them
   * @throws org.nccl4j.device.InvalidArgumentException if an id is invalid
   * @throws org.nccl4j.device.SystemErrorException if no root can be reached
   */
  public static JobReport ask(List<String> ids, Settings settings) {
    BootstrapOptions options = BootstrapOptions.from(settings);
    return askRoots(ids.stream().map(id -> BootstrapRoot.ofJob(id, options)).toList(), options);
  }

  /**
   * Asks the roots of a job, as {@link #ask} does.
   *
   * @param roots ids by which the ranks have joined
   */
  public static JobReport askRoots(List<BootstrapId> roots, BootstrapOptions options) {
    if (roots.size() == 1) {
      return of(List.of(JobObserver.ask(roots.get(0), options, LIMIT)));
    }
    List<JobObserver.Answer> answers = JobObserver.askAll(roots, options, LIMIT, FURTHER);
    List<JobObserver.Answer> failed =
        answers.stream().filter(each -> each.failure() != null).toList();
    if (failed.size() == answers.size()) {
      throw failed.get(0).failure().again();
    }
    return of(
        answers.stream()
            .filter(each -> each.failure() == null)
            .map(JobObserver.Answer::states)
            .toList(),
        failed.stream()
            .map(each -> new UnreachedRoot(each.root().where(), each.failure().problem()))
            .toList());
  }

  /**
   * The state of a communicator whose ranks are all of this process, and of all others here.
   *
   * @param nRanks of the communicator
   * @param operations names by number
   */
  public static JobReport ofThisProcess(int nRanks, List<String> operations) {
    List<RankReport> reports = FlightReader.ofThisProcess(operations);
    ProcessReport process = new ProcessReport(DebugLog.hostName(), ThisProcess.pid(), "");
    return new JobReport(
        nRanks,
        true,
        IntStream.range(0, nRanks).mapToObj(rank -> new Rank(rank, process, false)).toList(),
        List.of(),
        states(reports),
        List.of());
  }

  private static List<CommunicatorState> states(List<RankReport> reports) {
    return Diagnosis.byCommunicator(reports).values().stream().map(CommunicatorState::of).toList();
  }

  static JobReport of(List<JobObserver.States> answers) {
    return of(answers, List.of());
  }

  private static JobReport of(List<JobObserver.States> answers, List<UnreachedRoot> unreached) {
    // A rank between two roots' blocks is connected to both.
    Map<Integer, Rank> ranks = new TreeMap<>();
    Map<Integer, List<RankReport>> reports = new TreeMap<>();
    for (JobObserver.States states : answers) {
      for (RankState state : states.ranks()) {
        ProcessReport process = new ProcessReport(state.host(), state.pid(), "");
        boolean silent = states.formed() && !state.answered();
        if (!silent || !ranks.containsKey(state.rank())) {
          ranks.put(state.rank(), new Rank(state.rank(), process, silent));
          reports.put(state.rank(), reports(state, process));
        }
      }
    }
    int nRanks = answers.stream().mapToInt(JobObserver.States::nRanks).max().orElse(0);
    List<CommunicatorState> communicators =
        states(reports.values().stream().flatMap(List::stream).toList());
    return new JobReport(
        nRanks,
        answers.stream().allMatch(JobObserver.States::formed),
        List.copyOf(ranks.values()),
        IntStream.range(0, nRanks).filter(rank -> !ranks.containsKey(rank)).boxed().toList(),
        communicators,
        List.copyOf(unreached));
  }

  private static List<RankReport> reports(RankState state, ProcessReport process) {
    try {
      return StateMessage.decode(state.state(), process);
    } catch (IOException e) {
      throw new InternalErrorException(
          "rank %d (%s) sent a state that cannot be read: %s"
              .formatted(state.rank(), process, e.getMessage()),
          "report this, with the versions of the job and of the nccl command");
    }
  }

  /** The ranks that gave no answer. */
  public List<Rank> silent() {
    return ranks.stream().filter(Rank::silent).toList();
  }

  /** True if all ranks are there and answer, and none is behind or has failed. */
  public boolean isHealthy() {
    return formed
        && unreached.isEmpty()
        && gone.isEmpty()
        && silent().isEmpty()
        && communicators.stream()
            .allMatch(
                each ->
                    each.behind().isEmpty() && each.ranks().stream().noneMatch(RankReport::failed));
  }
}
